# from: own
# ask: python
from typing import Tuple  # the script compiler wants it so

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


def doubled(self, given: Tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:  # noqa: UP006
    return output * 2


net, x = Net(), torch.ones(1, 2)
net.first.register_forward_hook(doubled)
with bp.probe(net) as rec:
    scripted = torch.jit.script(net)
    y = net(x)
    y.sum().backward()
assert torch.equal(scripted(x), y) and torch.equal(rec["first"].value, net.first(x))
