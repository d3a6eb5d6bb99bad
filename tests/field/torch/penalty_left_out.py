# from: own
# ask: explain
# says: penalty
# says: nothing recorded leads to an output from: penalty
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(3, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    penalty = layer.weight.abs().sum()  # <- here
    fit = layer(torch.randn(5, 3)).square().mean()
    loss = fit
    loss.backward()
    optimizer.step()
    print(penalty.item())
