# from: https://github.com/pytorch/examples/blob/main/gcn/main.py
# truth: healthy: only some nodes have a label in the training mask, the others reach the loss as neighbours
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.kernel, self.bias = nn.Parameter(torch.empty(i, o)), nn.Parameter(torch.zeros(o))
        nn.init.xavier_normal_(self.kernel)

    def forward(self, x, adjacency):
        return adjacency @ (x @ self.kernel) + self.bias


class Gcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1, self.gc2 = GraphConv(10, 8), GraphConv(8, 2)

    def forward(self, x, adjacency):
        x = F.dropout(F.relu(self.gc1(x, adjacency)), 0.5, self.training)
        return F.log_softmax(self.gc2(x, adjacency), dim=1)


torch.manual_seed(42)
side = torch.arange(10) // 5
edges = ((torch.rand(10, 10) < 0.3) & (side[:, None] == side)).float()
adjacency = ((edges + edges.T + torch.eye(10)) > 0).float()
degree = adjacency.sum(1).rsqrt()
adjacency = degree[:, None] * adjacency * degree
train = torch.tensor([0, 1, 6, 7])
model = Gcn()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=5e-4)
for epoch in range(5):
    optimizer.zero_grad()
    loss = F.nll_loss(model(torch.eye(10), adjacency)[train], side[train])
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
