# from: https://github.com/pyg-team/pytorch_geometric/issues/3032
# ask: explain --nonfinite
# exit: 1
# says: div at \[2\]: 0\.0 / 0\.0
# says: only where it was `adj`
# says: adj \+ 1\.19e-07
"""MinCUT pooling of a batch with a graph of single atoms: the degrees of its coarsened adjacency are 0."""


import torch
from torch import nn

from torch_geometric.nn import DenseGraphConv, dense_mincut_pool


class Net(nn.Module):
    def __init__(self, features, hidden, clusters, classes):
        super().__init__()
        self.conv1 = DenseGraphConv(features, hidden)
        self.assign = nn.Linear(hidden, clusters)
        self.conv2 = DenseGraphConv(hidden, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x, adj, mask):
        x = self.conv1(x, adj, mask).relu()
        s = self.assign(x)
        x, adj, mincut, ortho = dense_mincut_pool(x, adj, s, mask)  # <- here
        x = self.conv2(x, adj).relu().mean(dim=1)
        return self.out(x).log_softmax(-1), mincut + ortho


def batch(generator, graphs=4, nodes=6, features=3):
    x = torch.randn(graphs, nodes, features, generator=generator)
    adj = (torch.rand(graphs, nodes, nodes, generator=generator) < 0.4).float()
    adj = ((adj + adj.transpose(1, 2)) > 0).float()
    adj[2] = 0.0                                             # a molecule of single atoms
    mask = torch.ones(graphs, nodes, dtype=torch.bool)
    return x, adj, mask, torch.tensor([0, 1, 0, 1])


torch.manual_seed(13)
generator = torch.Generator().manual_seed(13)
model = Net(3, 8, 2, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(3):
    x, adj, mask, y = batch(generator)
    out, extra = model(x, adj, mask)
    loss = nn.functional.nll_loss(out, y) + extra
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), model.conv1.lin_rel.weight.grad.abs().sum().item())
