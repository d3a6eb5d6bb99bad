# from: own
# exit: 0
# never: no optimizer
# A second network is there and is called, and nothing of it is differentiated.
import torch
from torch import nn

torch.manual_seed(0)
net, other = nn.Linear(4, 2), nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    y = net(torch.randn(8, 4))
    y.square().mean().backward()
    optimizer.step()
    print(other(y).mean().item())
