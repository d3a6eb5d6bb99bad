# from: own
# exit: 0
# never: cancel
"""Roots of what is behind a relu: their slope at 0 is great, and the relu lets nothing of it pass."""

import torch
from torch import nn

torch.manual_seed(1)
x = torch.randn(32, 3)
model = nn.Linear(3, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    loss = (torch.sqrt(model(x).relu() + 1e-14) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
