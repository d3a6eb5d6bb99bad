# from: own
# ask: python
# Classes that say themselves how they are copied.
import copy
import pickle

import torch
from torch import nn

import backprobe as bp


class Stateful(nn.Linear):
    def __getstate__(self):
        return {**self.__dict__, "saved": True}

    def forward(self, x):
        y = super().forward(x)
        return y


class Made(nn.Linear):
    def __reduce__(self):
        return made, (self.in_features, self.out_features), {"weight": self.weight.detach()}

    def __setstate__(self, state):
        self.weight = nn.Parameter(state["weight"])

    def forward(self, x):
        y = super().forward(x) * 2
        return y


def made(columns, rows):
    return Made(columns, rows, bias=False)


net, x = nn.Sequential(Stateful(2, 3), Made(3, 1, bias=False)), torch.ones(1, 2)
with bp.probe(net, ["**", "**:*"]) as rec:
    copies = [pickle.loads(pickle.dumps(net)), copy.deepcopy(net)]
    net(x).sum().backward()
for one in copies:
    assert one[0].saved and not any("forward" in vars(module) for module in one.modules())
    assert torch.equal(one(x), net(x))
