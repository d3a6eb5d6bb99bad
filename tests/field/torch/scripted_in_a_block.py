# from: own
# ask: python
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
    scripted, part = torch.jit.script(net), torch.jit.script(net.first)
    y = net(x)
    y.sum().backward()
    assert torch.equal(scripted(x), y) and torch.equal(part(x), net.first(x))
assert rec["h"].grad.shape == (1, 3) and not {"forward"} & vars(net).keys()
