# from: https://github.com/maziarraissi/PINNs
# truth: healthy: the loss has second derivatives of the network, whose last bias counts at the boundary only
# kind: healthy
import torch
from torch import nn


def slope(y, x):
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
x0 = torch.rand(30, 1)
begin, wanted = torch.cat([x0, torch.zeros(30, 1)], 1), torch.sin(torch.pi * x0)
sides = torch.cat([torch.randint(0, 2, (30, 1)).float(), torch.rand(30, 1)], 1)
for step in range(5):
    x, t = torch.rand(40, 1, requires_grad=True), torch.rand(40, 1, requires_grad=True)
    u = net(torch.cat([x, t], 1))
    residual = slope(u, t) - 0.1 * slope(slope(u, x), x)
    loss = residual.pow(2).mean() + (net(begin) - wanted).pow(2).mean() + net(sides).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
