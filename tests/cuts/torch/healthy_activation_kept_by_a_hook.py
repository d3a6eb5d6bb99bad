# from: own
# ask: explain
# kind: healthy
"""A hook keeps activations for a picture, detached; the training does not read them."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
seen = {}
net[1].register_forward_hook(lambda module, given, made: seen.update(tanh=made.detach().cpu().numpy()))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(10, 4), torch.randn(10, 1)
for _ in range(3):
    loss = (net(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(seen["tanh"].std())
