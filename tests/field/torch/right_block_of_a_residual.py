# from: own
# ask: python
# A block around an equation whose residual has second slopes: gradients are those of retain_grad, nothing is alarming.
import torch
from torch import nn

import backprobe as bp

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.linspace(0, 1, 10)[:, None].requires_grad_()


def slopes():
    u = net(x)
    u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
    return u, u_x, u_xx


kept = slopes()
for one in kept:
    one.retain_grad()
(kept[2] + 4 * kept[0] * kept[1]).square().mean().backward()
net.zero_grad()
with bp.probe() as rec:
    u = net(x)
    u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
    residual = u_xx + 4 * u * u_x
    loss = residual.square().mean()
    loss.backward()
for name, one in zip(("u", "u_x", "u_xx"), kept):
    assert torch.allclose(rec[name].grad, one.grad), name
report = bp.explain(rec)
assert report.ok, str(report)
