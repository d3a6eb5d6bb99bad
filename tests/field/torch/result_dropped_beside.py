# from: own
# ask: explain
# says: all 2 parameters got a gradient
# says: the result of `?loss\.add\(penalty\)`? is not used
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(3, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = layer(torch.randn(5, 3)).square().mean()
    penalty = layer.weight.abs().sum()
    loss.add(penalty)  # <- here
    loss.backward()
    optimizer.step()
