# from: own
# ask: python
# A model is traced and rewritten inside a block: both compute what the model computes.
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


net, x = Net(), torch.ones(1, 2)
with bp.probe(net, ["**", "**:*"]) as rec:
    traced, rewritten = torch.jit.trace(net, x), torch.fx.symbolic_trace(net)
    y = net(x)
    y.sum().backward()
    assert torch.equal(traced(x), y) and torch.equal(rewritten(x), y)
