# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.act, self.spare = nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)

    def forward(self, x):
        h = self.linear.forward(x)
        return self.act.forward(h)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.norm, self.head = Encoder(), nn.LayerNorm(3), nn.Linear(3, 1)

    def forward(self, x):
        z = self.encoder.forward(x)
        return self.head(nn.LayerNorm.forward(self.norm, z))


torch.manual_seed(0)
model, x = Net(), torch.randn(2, 3)
with bp.probe(model) as rec:
    model(x).sum().backward()
status = {name: str(rec[name].status) for name in ("encoder", "encoder.linear", "norm", "encoder.spare", "head")}
assert status == {
    "encoder": "opaque",
    "encoder.linear": "opaque",
    "norm": "opaque",
    "encoder.spare": "not_executed",
    "head": "ok",
}, status
assert "its parameters have gradients" in rec["norm"].reason, rec["norm"].reason
assert rec["encoder.act"].reason == "no call of it was seen", rec["encoder.act"].reason
report = str(bp.explain(rec))
assert "'encoder.spare.weight' is a parameter of 'encoder.spare'" in report, report
assert "did not run" not in report and "never computed" not in report, report
assert str(bp.probe(model)(x[:1])["norm"].status) == "opaque"
