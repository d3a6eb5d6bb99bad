# from: https://github.com/pytorch/pytorch/issues/75181
# ask: explain --nonfinite
# birth: forward
# name: loss
# operands: all targets are -100
# value: loss
"""A batch whose labels are all ignored."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(2, 3, 4)
labels = torch.tensor([[0, 2, -100], [-100, -100, -100]])
for batch, targets in zip(x, labels):
    logits = model(batch)
    loss = nn.functional.cross_entropy(logits, targets)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
