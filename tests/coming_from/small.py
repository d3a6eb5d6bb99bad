"""The model that most pairs ask about."""

import torch
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        return self.second(hidden)


def given():
    """What the lines of a pair may use."""
    torch.manual_seed(0)
    model, x = Net(), torch.randn(5, 3)
    return {
        "bp": bp,
        "torch": torch,
        "nn": nn,
        "model": model,
        "x": x,
        "optimizer": torch.optim.SGD(model.parameters(), 0.1),
    }
