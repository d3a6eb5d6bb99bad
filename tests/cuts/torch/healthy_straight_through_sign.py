# from: own
# ask: explain
# kind: healthy
"""Weights are binarized on the way forward, and the slope goes straight through."""

import torch
from torch import nn


class Binary(nn.Linear):
    def forward(self, x):
        scale = self.weight.abs().mean()
        hard = self.weight.sign() * scale
        weight = self.weight + (hard - self.weight).detach()
        return nn.functional.linear(x, weight, self.bias)


torch.manual_seed(0)
net = nn.Sequential(Binary(6, 12), nn.Hardtanh(), Binary(12, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
x, t = torch.randn(24, 6), torch.randint(0, 2, (24,))
for _ in range(3):
    loss = nn.functional.cross_entropy(net(x), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
