# from: https://github.com/pytorch/pytorch/issues/90171
# never: is never|not used|unused|replaced|left out of
"""Healthy: each turn skips some blocks by chance; a block without a gradient has one in another turn."""

import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(1)


class Deep(nn.Module):
    def __init__(self, depth=5, rate=0.4):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(depth))
        self.head = nn.Linear(8, 2)
        self.rate = rate

    def forward(self, x):
        for block in self.blocks:
            if self.training and random.random() < self.rate:
                continue
            x = x + block(x)
        return self.head(x)


model = Deep()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(20):
    x, y = torch.randn(16, 8), torch.randint(0, 2, (16,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
