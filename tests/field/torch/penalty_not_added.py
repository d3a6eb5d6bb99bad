# from: own
# ask: explain
# exit: 1
# says: total\.add\(penalty\)`? is not used
import torch
from torch import nn

torch.manual_seed(0)
body, gate = nn.Linear(3, 3), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*body.parameters(), *gate.parameters()], lr=0.1)


def loss_of(x):
    total = body(x).square().mean()
    penalty = gate(x).sigmoid().mean()
    total.add(penalty)  # <- here
    return total


for _ in range(2):
    optimizer.zero_grad()
    loss_of(torch.randn(5, 3)).backward()
    optimizer.step()
