# from: own
# ask: explain --nonfinite
# exit: 1
# says: moment \+ 1\.19e-07
# says: only where it was `moment`
"""A step is scaled by a second moment that is 0 for a weight that had no gradient yet, inside a function of PyTorch."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(8, 3)
x[:, 1] = 0.0
moment = x.square().mean(0)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    h = model(x)
    scaled = torch.addcdiv(h, h, moment)  # <- here
    loss = scaled.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
