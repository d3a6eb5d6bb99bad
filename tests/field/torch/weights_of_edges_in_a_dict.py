# from: https://github.com/dmlc/dgl/issues/1579
# exit: 1
# says: edges\['w'\]|edges\["w"\]|edges\.w|edges
# says: no optimizer
# never: got no gradient
# The weights of the edges are in a dictionary of the layer: `parameters()` does not find them.
import torch
from torch import nn


class Sum(nn.Module):
    def __init__(self, edges, width):
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.edges = {"w": nn.Parameter(torch.randn(edges, 1))}

    def forward(self, x, source, target):
        messages = self.dense(x)[source] * self.edges["w"]
        return torch.zeros_like(x).index_add(0, target, messages)


torch.manual_seed(0)
source, target = torch.randint(0, 6, (2, 20))
layer, read = Sum(20, 4), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*layer.parameters(), *read.parameters()], lr=1e-2)
x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
for step in range(4):
    loss = nn.functional.cross_entropy(read(layer(x, source, target).relu()), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
