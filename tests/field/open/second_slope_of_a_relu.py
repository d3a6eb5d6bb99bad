# from: https://github.com/ComputationalDomain/PINNs/issues/1
# exit: 1
# says: 'bend'
# says: 0 everywhere|exactly 0|constant
# Heat on a rod: a network of ReLU is linear between its kinks, its second slope is nowhere.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(3):
    x = torch.rand(32, 1, requires_grad=True)
    u = net(x)
    slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    bend = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]  # <- here
    ends = net(torch.tensor([[0.0], [1.0]])).square().sum()
    loss = (bend + torch.sin(x)).square().mean() + ends
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
