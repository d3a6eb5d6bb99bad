# from: own
# exit: 0
# never: no optimizer
# Gradients are computed and shown; nothing is trained.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
for _ in range(2):
    net.zero_grad()
    net(torch.randn(8, 4)).square().mean().backward()
    print(net[0].weight.grad.norm())
