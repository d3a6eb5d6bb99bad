# from: own
# ask: explain
# kind: healthy
"""A rounding with a backward of its own, and a step size that is learned."""

import torch
from torch import nn


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


torch.manual_seed(0)
net, step = nn.Linear(5, 4), nn.Parameter(torch.tensor(0.25))
optimizer = torch.optim.SGD([*net.parameters(), step], lr=0.05)
x, y = torch.randn(12, 5), torch.randn(12, 4)
for _ in range(3):
    levels = Round.apply((net(x) / step).clamp(-8, 7))
    loss = (levels * step - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
