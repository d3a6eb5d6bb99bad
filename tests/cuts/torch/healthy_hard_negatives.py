# from: own
# ask: explain
# kind: healthy
"""The hardest pairs are chosen without a graph, and their distances are computed with one."""

import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Linear(6, 4)
optimizer = torch.optim.Adam(embed.parameters(), lr=1e-2)
x, label = torch.randn(20, 6), torch.arange(20) % 4
same = label[:, None] == label
for _ in range(3):
    z = nn.functional.normalize(embed(x), dim=-1)
    with torch.no_grad():
        apart = torch.cdist(z, z)
        far = apart.masked_fill(~same, -1).argmax(1)
        near = apart.masked_fill(same, 9).argmin(1)
    positive, negative = (z - z[far]).norm(dim=-1), (z - z[near]).norm(dim=-1)
    loss = nn.functional.relu(positive - negative + 0.5).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
