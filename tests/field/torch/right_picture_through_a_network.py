# from: own
# exit: 0
# never: no optimizer
# The optimizer has the picture alone, and the network in evaluation mode only passes its gradient on.
import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).eval()
picture = torch.randn(1, 6, requires_grad=True)
optimizer = torch.optim.Adam([picture], lr=0.05)
for _ in range(4):
    optimizer.zero_grad()
    network(picture)[0, 1].neg().backward()
    optimizer.step()
