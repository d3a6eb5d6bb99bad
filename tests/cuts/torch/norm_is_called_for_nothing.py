# from: own
# ask: explain
# kind: dropped
# name: norm.weight
# missing: net.norm.weight.grad
"""The normalisation runs, and its result is not bound to anything."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, 1)

    def forward(self, x):
        self.norm(x)  # <- here
        return self.down(torch.relu(self.up(x)))


torch.manual_seed(0)
net = Block(6)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
x, y = torch.randn(16, 6), torch.randn(16, 1)
for _ in range(3):
    loss = (net(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
