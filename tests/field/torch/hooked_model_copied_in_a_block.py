# from: own
# ask: python
# A model with a hook of its own is averaged, copied and saved inside a block of outputs alone.
import copy
import pickle

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import backprobe as bp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor):
        h = self.first(x).tanh()
        return self.second(h)


def doubled(module, args, output):
    return output * 2


net, x = Net(), torch.ones(1, 2)
net.first.register_forward_hook(doubled)
y = net(x)
with bp.probe(net) as rec:
    copies = [copy.deepcopy(net), AveragedModel(net).module, pickle.loads(pickle.dumps(net)), copy.copy(net)]
    net(x).sum().backward()
    copies.append(copy.deepcopy(net))
for one in copies:
    assert [*one.first._forward_hooks.values()] == [doubled]
    assert torch.equal(one(x), y)
assert torch.equal(rec["first"].value, net.first(x)) and [*net.first._forward_hooks.values()] == [doubled]
