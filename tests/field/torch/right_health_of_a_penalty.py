# from: own
# ask: health PROGRAM
# says: no problems found
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for step in range(3):
    x = torch.randn(16, 2, requires_grad=True)
    score = critic(x)
    (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    loss = (score - 1).square().mean() + ((slope.norm(dim=1) - 1) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(float(critic[0].weight.grad.abs().sum()))
