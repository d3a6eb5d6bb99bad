# from: own
# exit: 0
# never: adds
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
running = torch.zeros(())
for _ in range(4):
    optimizer.zero_grad()
    loss = layer(torch.randn(5, 3)).square().mean()
    loss.backward()
    running = running + loss
    optimizer.step()
print(running.item())
