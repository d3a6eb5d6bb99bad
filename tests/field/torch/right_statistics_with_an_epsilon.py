# from: own
# ask: explain
# exit: 0
# never: 1\.19e-07
"""A feature that never changes is standardised with the library's own small number."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
table = torch.randn(32, 4)
table[:, 2] = 1.5
mean, var = table.mean(0), table.var(0)
head = nn.Linear(4, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(2):
    h = F.batch_norm(table, mean, var, training=False)
    loss = head(h).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
