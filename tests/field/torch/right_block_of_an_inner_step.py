# from: own
# ask: python
# MAML in a block around the model, with functional_call and copies that are stepped by hand: all gradients are there.
import torch
from torch import nn
from torch.func import functional_call

import backprobe as bp

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
x, y = torch.randn(2, 6, 1), torch.randn(2, 6, 1)


def adapted(steps):
    fast = dict(net.named_parameters())
    for _ in range(steps):
        inner = (functional_call(net, fast, (x[0],)) - y[0]).square().mean()
        slopes = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
        fast = {name: value - 0.1 * slope for (name, value), slope in zip(fast.items(), slopes)}
    return (functional_call(net, fast, (x[1],)) - y[1]).square().mean()


adapted(2).backward()
wanted = {name: value.grad.clone() for name, value in net.named_parameters()}
net.zero_grad()
with bp.probe(net, "**") as rec:
    outer = adapted(2)
    outer.backward()
for name, value in net.named_parameters():
    assert torch.equal(value.grad, wanted[name]), name
report = bp.explain(rec)
assert report.ok, str(report)
with bp.probe() as rec:
    outer = adapted(2)
    outer.backward()
report = bp.explain(rec)
assert report.ok, str(report)
