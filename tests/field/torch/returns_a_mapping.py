# from: own
# ask: python
from collections import UserDict

import torch
from torch import nn

import backprobe as bp


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.depth, self.normal = nn.Linear(4, 1), nn.Linear(4, 3)

    def forward(self, x):
        return UserDict(depth=self.depth(x), normal=self.normal(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = Heads()

    def forward(self, x):
        out = self.heads(x)
        return out["depth"].sum() + out["normal"].square().sum()


torch.manual_seed(0)
net = Net()
rec = bp.probe(net)(torch.randn(2, 4))
assert torch.equal(rec["heads:return.depth"].grad, torch.ones(2, 1)), list(rec)
assert torch.allclose(rec["heads:return.normal"].grad, 2 * rec["heads:return.normal"].value)
