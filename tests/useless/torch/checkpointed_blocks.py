# from: https://docs.pytorch.org/docs/stable/checkpoint.html
# truth: healthy: the blocks are recomputed in the backward pass, without reentry
# kind: healthy
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = nn.ModuleList(nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12)) for _ in range(3))
first, last = nn.Linear(5, 12), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*first.parameters(), *blocks.parameters(), *last.parameters()], lr=5e-3)
x = torch.randn(32, 5)
y = x.pow(2).sum(1, keepdim=True)
for step in range(4):
    h = first(x)
    for block in blocks:
        h = h + checkpoint(block, h, use_reentrant=False)
    loss = (last(h) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
