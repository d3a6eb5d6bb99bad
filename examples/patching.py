"""Which layer carries the difference between two inputs? Each is patched from the run on the other one."""

import torch
from torch import nn

import backprobe as bp


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        update = torch.tanh(self.mix(x))
        return x + update


class Model(nn.Module):
    def __init__(self, width=8, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        score = self.head(x).sum()
        return score


torch.manual_seed(0)
model, clean, corrupt = Model(), torch.randn(1, 8), torch.randn(1, 8)
updates = "blocks.*:update"

given = bp.probe(model, updates)(clean)
swept = bp.sweep(model, updates, replace=given, approximate=True)(corrupt)

print(f"score of the clean input: {given.result:.3f}")
print(swept)
