# from: https://github.com/senya-ashukha/real-nvp-pytorch
# truth: healthy: a binary mask multiplies half of each sample by 0, and another layer has the other half
# kind: healthy
import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh())
        self.t = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2))

    def forward(self, x):
        kept = self.mask * x
        s, t = self.s(kept) * (1 - self.mask), self.t(kept) * (1 - self.mask)
        return kept + (1 - self.mask) * (x - t) * torch.exp(-s), -s.sum(1)


torch.manual_seed(0)
layers = nn.ModuleList(Coupling(torch.tensor(m)) for m in ([0.0, 1.0], [1.0, 0.0]) * 2)
optimizer = torch.optim.Adam(layers.parameters(), lr=5e-3)
for step in range(4):
    x = torch.randn(64, 2) * torch.tensor([2.0, 0.5])
    x[:, 1] += 0.3 * x[:, 0] ** 2
    z, log_det = x, 0.0
    for layer in layers:
        z, one = layer(z)
        log_det = log_det + one
    loss = -(-0.5 * z.pow(2).sum(1) - math.log(2 * math.pi) + log_det).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
