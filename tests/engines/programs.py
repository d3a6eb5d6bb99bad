"""Programs that are sent to workers, and what kills these."""

import os
import signal
import threading
import time
from pathlib import Path

import torch
from torch import nn


def f(x, w):
    u = x * w
    v = nn.functional.dropout(u, 0.5)
    h = torch.tanh(v) + torch.rand(())
    return (h * w).sum()


def loss(x, w):
    p = torch.sigmoid(x @ w)
    q = torch.sqrt(w.abs() + 0.1)
    return -torch.log(1 - p).mean() + torch.log(q).sum()


class Model(nn.Module):
    """Blocks of a width, with dropout, a buffer that each call changes, and a sum at the end."""

    def __init__(self, depth=6, width=16):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth))
        self.norm, self.drop = nn.BatchNorm1d(width), nn.Dropout(0.2)

    def forward(self, x):
        for block in self.blocks:
            x = x + self.drop(block(x))
        return self.norm(x).square().sum()


class Locked(Model):
    def __init__(self):
        super().__init__(1)
        self.lock = threading.Lock()


class Killing:
    """Zeros in the place of a value, which kill the process first: so often, counted by files in a folder."""

    def __init__(self, folder, times, at=1.5, home=None):
        self.folder, self.times, self.at, self.home = str(folder), times, at, home or os.getpid()

    def __call__(self, value):
        if os.getpid() != self.home and bool((value == self.at).any()):
            killed = len(list(Path(self.folder).iterdir()))
            if killed < self.times:
                Path(self.folder, str(killed)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros_like(value)


class Slowly:
    """Zeros in the place of a value, after a while, and a file for each."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, value):
        time.sleep(0.1)
        Path(self.folder, f"{os.getpid()}-{time.monotonic_ns()}").touch()
        return torch.zeros_like(value)


def failing(value):
    if bool((value == 1.5).any()):
        raise LookupError("mine")
    return torch.zeros_like(value)
