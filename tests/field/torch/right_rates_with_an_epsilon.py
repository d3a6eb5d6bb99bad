# from: own
# ask: explain
# exit: 0
# never: 1\.19e-07
"""A rate behind relu is exactly 0, and the library's loss adds a small number to it."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x, counts = torch.randn(16, 3), torch.ones(16, 2)
model = nn.Linear(3, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(2):
    rate = model(x).relu()
    loss = F.poisson_nll_loss(rate, counts, log_input=False)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
