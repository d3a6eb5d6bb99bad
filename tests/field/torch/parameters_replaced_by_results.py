# from: own
# ask: python
import warnings

import torch
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, 2.0]]))

    def forward(self, x):
        return x @ self.weight.T


def step():
    torch.manual_seed(0)
    net, x = Net(), torch.randn(5, 2)
    leaf = net.weight
    inner = net(x).square().mean()
    (grad,) = torch.autograd.grad(inner, leaf, create_graph=True)
    net._parameters["weight"] = leaf - 0.1 * grad
    outer = (net(x) - 1).square().mean()
    outer.backward()
    return leaf.grad


warnings.simplefilter("error")
bare = step()
with bp.probe() as rec:
    probed = step()
assert torch.equal(bare, probed)
told = str(bp.explain(rec))
assert "got no gradient" not in told, told
assert "would have none" not in told, told
