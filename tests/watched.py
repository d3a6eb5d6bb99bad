"""A small model, its batches and its training, for the tests of ``bp.watch``."""

import torch
from torch import nn

ALL = ("value", "grad", "param", "update")


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


def disk_full(run):
    """What the watch has so far is on disk, and what it has next is too much for it."""
    run.flush()
    connection = run._background.writer.connection
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    run.log(**{f"many{at}": at for at in range(3000)})
