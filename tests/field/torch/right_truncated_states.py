# from: own
# never: got no gradient
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(2, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
h = torch.zeros(4, 6)
for window in range(4):
    h = h.detach()
    loss = torch.zeros(())
    for _ in range(3):
        x = torch.randn(4, 2)
        h = cell(x, h)
        loss = loss + (head(h) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(float(cell.weight_hh.grad.abs().sum()))
