# from: own
# ask: python
import copy
import io
import pickle

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


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    assert b"backprobe" not in file.getvalue()
    file.seek(0)
    return torch.load(file, weights_only=False)


net, x = Net(), torch.ones(1, 2)
with bp.probe(net, ["**", "**:*"]) as rec:
    copies = [pickle.loads(pickle.dumps(net, protocol)) for protocol in range(6)]
    copies += [saved(net), copy.copy(net), copy.deepcopy(net), copy.deepcopy([net])[0]]
    net(x).sum().backward()
for one in copies:
    assert not any("forward" in vars(module) for module in one.modules()), one
    assert torch.equal(one(x), net(x))
assert rec["h"].grad.shape == (1, 3)
