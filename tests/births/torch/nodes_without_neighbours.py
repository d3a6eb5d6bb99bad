# from: https://pytorch-geometric.readthedocs.io/en/latest/tutorial/create_gnn.html
# ask: explain --nonfinite
# birth: forward
# name: scale
# operands: 0.0
# value: loss
# needs: torch_geometric
"""A convolution of a graph without loops; one node has no edge."""

import torch
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree


class Convolution(MessagePassing):
    def __init__(self):
        super().__init__(aggr="add")
        self.lin = torch.nn.Linear(2, 2)

    def forward(self, x, edges):
        row, col = edges
        deg = degree(col, x.size(0), dtype=x.dtype)
        scale = deg.pow(-0.5)  # <- here
        h = self.propagate(edges, x=self.lin(x), norm=scale[row] * scale[col])
        return h * scale.unsqueeze(-1)

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


torch.manual_seed(0)
model = Convolution()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, edges = torch.randn(4, 2), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
for _ in range(2):
    loss = model(x, edges).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
