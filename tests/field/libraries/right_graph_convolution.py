# from: https://github.com/pyg-team/pytorch_geometric
# never: got no gradient
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

torch.manual_seed(0)
edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
graph = Data(x=torch.randn(4, 5), edge_index=edges, y=torch.tensor([0, 1, 0, 1]))


class Gcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(5, 8), GCNConv(8, 2)

    def forward(self, data):
        h = self.conv1(data.x, data.edge_index).relu()
        return self.conv2(h, data.edge_index).log_softmax(-1)


model = Gcn()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(3):
    loss = nn.functional.nll_loss(model(graph), graph.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([float(p.grad.abs().sum()) for p in model.parameters()])
