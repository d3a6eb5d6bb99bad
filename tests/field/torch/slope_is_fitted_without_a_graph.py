# from: https://github.com/pytorch/pytorch/issues/31984
# says: create_graph=True
# says: slope
# never: got no gradient
# Values and slopes of a function are fitted, and the slopes have no history: their loss teaches nothing.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 30), nn.Softplus(), nn.Linear(30, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
x = torch.randn(100, 3)
y, z = x.sin().sum(-1, keepdim=True), x.cos().sum(-1, keepdim=True)
for epoch in range(3):
    x.requires_grad = True
    optimizer.zero_grad()
    output = net(x)
    slope = torch.autograd.grad(output.sum(), x, retain_graph=True)[0]  # <- here
    loss_y = nn.functional.mse_loss(output, y)
    loss_z = nn.functional.mse_loss(slope.sum(-1, keepdim=True), z)
    loss = loss_y + loss_z
    loss.backward()
    optimizer.step()
print(loss.item())
