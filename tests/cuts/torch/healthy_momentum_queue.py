# from: own
# ask: explain
# kind: healthy
"""Contrast against a queue of keys that a slow encoder made."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
query_of = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
key_of = copy.deepcopy(query_of).requires_grad_(False)
queue = nn.functional.normalize(torch.randn(32, 4), dim=-1)
optimizer = torch.optim.SGD(query_of.parameters(), lr=0.05)
x = torch.randn(8, 8)
for _ in range(3):
    q = nn.functional.normalize(query_of(x + 0.1 * torch.randn_like(x)), dim=-1)
    k = nn.functional.normalize(key_of(x + 0.1 * torch.randn_like(x)), dim=-1)
    scores = torch.cat([(q * k).sum(-1, keepdim=True), q @ queue.T], 1) / 0.2
    loss = nn.functional.cross_entropy(scores, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    queue = torch.cat([k, queue])[:32]
    for slow, fast in zip(key_of.parameters(), query_of.parameters(), strict=True):
        slow.data.mul_(0.99).add_(fast.data, alpha=0.01)
