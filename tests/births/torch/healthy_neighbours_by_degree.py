# from: https://pytorch-geometric.readthedocs.io/en/latest/tutorial/create_gnn.html
# ask: explain --nonfinite
# birth: healthy
# given: scale
"""The inverse root of a degree of zero is replaced before anything is computed with it."""

import torch

torch.manual_seed(0)
edges, x, y = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.randn(4, 3), torch.randn(4, 2)
lin = torch.nn.Linear(3, 2)
optimizer = torch.optim.Adam(lin.parameters(), lr=0.01)
row, col = edges
degree = torch.zeros(4).scatter_add(0, col, torch.ones(4))
scale = degree.pow(-0.5)
scale[scale == float("inf")] = 0.0
for _ in range(3):
    h = lin(x)
    mixed = torch.zeros(4, 2).index_add(0, col, (scale[row] * scale[col]).unsqueeze(-1) * h[row])
    loss = (mixed - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
