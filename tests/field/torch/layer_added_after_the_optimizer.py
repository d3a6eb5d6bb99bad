# from: own
# exit: 1
# says: 2 parameters .*get gradients, and no optimizer
# says: net\.3\.weight, net\.3\.bias
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
optimizer = torch.optim.Adam(net.parameters())
net.append(nn.LayerNorm(8, elementwise_affine=False)).append(nn.Linear(8, 1))
for _ in range(5):
    optimizer.zero_grad()
    net(torch.randn(16, 4)).square().mean().backward()
    optimizer.step()
