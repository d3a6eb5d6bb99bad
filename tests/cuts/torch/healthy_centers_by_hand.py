# from: own
# ask: explain
# kind: healthy
"""Centers of classes are moved by hand, and features are drawn to them."""

import torch
from torch import nn

torch.manual_seed(0)
embed, head, centers = nn.Linear(5, 4), nn.Linear(4, 3), torch.zeros(3, 4)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.05)
x, t = torch.randn(21, 5), torch.arange(21) % 3
for _ in range(3):
    z = embed(x)
    loss = nn.functional.cross_entropy(head(z), t) + 0.05 * (z - centers[t]).square().sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        means = torch.stack([z[t == each].mean(0) for each in range(3)])
        centers = 0.9 * centers + 0.1 * means
