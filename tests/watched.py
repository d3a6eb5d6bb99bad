"""A small model, its batches and its training, for the tests of ``bp.watch``."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 4)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Dropout(0.0))
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.body(self.embed(x)))


def batches(count=4, size=5):
    return torch.randn(count, size, 3, generator=torch.Generator().manual_seed(1))


def sgd(model, **settings):
    return torch.optim.SGD(model.parameters(), **{"lr": 0.1, **settings})


def trained(model, optimizer, data, log=None):
    for x in data:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if log is not None:
            log(loss=loss)


def rms(tensor):
    return float(tensor.detach().double().square().mean().sqrt())
