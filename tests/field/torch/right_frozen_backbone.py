# from: own
# says: all 2 parameters got a gradient
# never: no optimizer
import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Linear(4, 8).requires_grad_(False), nn.Linear(8, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    head(backbone(torch.randn(8, 4)).relu()).square().mean().backward()
    optimizer.step()
