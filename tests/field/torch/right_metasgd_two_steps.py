# from: own
# never: got no gradient
# never: is not a leaf
import torch
from torch import nn

torch.manual_seed(0)


def inner_step(module, loss, rate):
    owned = [(part, name, p) for part in module.modules() for name, p in part._parameters.items() if p is not None]
    slopes = torch.autograd.grad(loss, [p for _, _, p in owned], create_graph=True)
    for (part, name, p), slope in zip(owned, slopes, strict=True):
        part._parameters[name] = p - rate * slope


net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
leaves = list(net.parameters())
meta = torch.optim.SGD(leaves, lr=0.05)
for _ in range(2):
    x = torch.randn(8, 2)
    for _ in range(2):
        inner_step(net, net(x).square().mean(), 0.1)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    meta.zero_grad()
    loss.backward()
    meta.step()
    for part, name, leaf in zip([net[0], net[0], net[2], net[2]], ["weight", "bias"] * 2, leaves, strict=True):
        part._parameters[name] = leaf
print([float(p.grad.abs().sum()) for p in leaves])
