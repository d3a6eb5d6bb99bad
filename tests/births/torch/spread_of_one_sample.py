# from: https://github.com/pytorch/pytorch/issues/4320
# ask: explain --nonfinite
# birth: forward
# name: spread
# operands: 1 element
# value: loss
"""The last batch has one sample, and its advantages are divided by their deviation."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for states in torch.randn(5, 3).split(2):
    values = model(states).squeeze(-1)
    spread = values.std()  # <- here
    loss = ((values - values.mean()) / (spread + 1e-8)).square().mean() + values.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
