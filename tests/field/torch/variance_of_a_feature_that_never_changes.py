# from: own
# ask: explain --nonfinite
# exit: 1
# says: var \+ 1\.19e-07
# says: only where it was `var`
"""Features are standardised by the statistics of a table; one of them never changed, and its variance is 0."""

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
    h = F.batch_norm(table, mean, var, training=False, eps=0.0)  # <- here
    loss = head(h).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
