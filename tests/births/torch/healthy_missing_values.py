# from: own
# ask: explain --nonfinite
# birth: healthy
# given: table
"""A table has NaN for what was not measured, and these are left out of the loss by an index."""

import torch

torch.manual_seed(0)
table = torch.tensor([[1.0, 2.0, float("nan")], [0.5, float("nan"), 1.5], [2.0, 1.0, 0.0]])
measured = ~table.isnan()
rows = torch.nn.Parameter(torch.randn(3, 2))
columns = torch.nn.Parameter(torch.randn(2, 3))
optimizer = torch.optim.Adam([rows, columns], lr=0.05)
for _ in range(3):
    guess = rows @ columns
    loss = (guess[measured] - table[measured]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
