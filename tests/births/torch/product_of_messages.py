# from: https://github.com/pyg-team/pytorch_geometric/issues/8726
# ask: explain --nonfinite
# birth: forward
# name: pooled
# operands: 2e+20
# value: loss
# needs: torch_geometric
"""A pool multiplies the features of the nodes, and overflows."""

import torch
from torch_geometric.nn import aggr

torch.manual_seed(0)
layer, pool = torch.nn.Linear(1, 1), aggr.MulAggregation()
with torch.no_grad():
    layer.weight.fill_(1.0)
    layer.bias.zero_()
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-9)
x, index = torch.tensor([[2e20], [2e20], [3.0]]), torch.tensor([0, 0, 1])
for _ in range(2):
    h = layer(x)
    pooled = pool(h, index)  # <- here
    loss = pooled.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
