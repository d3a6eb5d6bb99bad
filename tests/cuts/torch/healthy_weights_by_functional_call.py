# from: https://pytorch.org/docs/stable/generated/torch.func.functional_call.html
# ask: explain
# kind: healthy
"""A generator makes the weights of a network, which is called with them."""

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
code, generator, net = nn.Parameter(torch.randn(3)), nn.Linear(3, 10), nn.Linear(4, 2).requires_grad_(False)
optimizer = torch.optim.Adam([code, *generator.parameters()], lr=1e-2)
x, y = torch.randn(7, 4), torch.randn(7, 2)
for _ in range(3):
    made = generator(code)
    predicted = functional_call(net, {"weight": made[:8].view(2, 4), "bias": made[8:]}, (x,))
    loss = (predicted - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
