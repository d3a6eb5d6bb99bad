# from: own
# ask: python
import torch

import backprobe as bp


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, slope):
        return slope * 2


w = torch.ones(3, requires_grad=True)
with bp.probe() as rec:
    h = w * 2
    Twice.apply(h)
    h.mul_(3)
    y = (h * h).sum()
    y.backward()
slopes = {name: rec[name].grad[0].item() for name in ("h#0", "h#3", "h#4")}
assert slopes == {"h#0": 180, "h#3": 90, "h#4": 30}, slopes
assert [str(rec[name].status) for name in ("h#1", "h#2")] == ["opaque"] * 2
report = bp.explain(rec)
assert not report.findings, str(report)

v = torch.ones(3, requires_grad=True)
with bp.probe() as rec:
    g = v * 2
    with torch.no_grad():
        g.mul_(3)
    z = (g * g).sum()
    z.backward()
assert "outside autograd" in str(bp.explain(rec)), str(bp.explain(rec))
