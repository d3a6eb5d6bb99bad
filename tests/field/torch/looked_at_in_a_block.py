# from: own
# ask: python
import inspect

import torch
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor):
        h = self.first(x).tanh()
        return self.second(h)


def seen(method):
    looks = (inspect.signature, inspect.getsource, inspect.getfile, inspect.ismethod, repr, inspect.getdoc)
    return [look(method) for look in looks], method.__func__, method.__self__, method.__name__


net, x = Net(), torch.ones(1, 2)
before = seen(net.forward)
with bp.probe(net, ":h") as rec:
    inside = seen(net.forward)
    net(x).sum().backward()
assert inside == before, (inside, before)
assert rec["h"].grad is not None
