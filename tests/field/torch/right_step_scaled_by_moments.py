# from: own
# ask: explain
# exit: 0
# never: 1\.19e-07
"""A step is scaled by second moments of which none is 0."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(8, 3)
moment = x.square().mean(0)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    h = model(x)
    scaled = torch.addcdiv(h, h, moment)
    loss = scaled.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
