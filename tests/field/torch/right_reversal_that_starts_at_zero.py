# from: https://github.com/pytorch/pytorch/issues/1110
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# The reversed gradient has the factor 0 in the first epoch, and grows.
import math

import torch
from torch import nn


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, slope):
        return -ctx.factor * slope, None


torch.manual_seed(0)
features, classes, domains = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 2)
parts = nn.ModuleList([features, classes, domains])
optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
for step in range(6):
    factor = 2 / (1 + math.exp(-10 * step / 6)) - 1
    x, kind = torch.randn(12, 4), torch.randint(0, 3, (12,))
    domain = torch.arange(12) % 2
    h = features(x).relu()
    loss = nn.functional.cross_entropy(classes(h), kind)
    loss = loss + nn.functional.cross_entropy(domains(Reversed.apply(h, factor)), domain)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
