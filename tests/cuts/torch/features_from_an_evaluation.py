# from: own
# ask: explain
# kind: no_grad
# name: encoder.weight
# missing: encoder.weight.grad
# moves: encoder.weight.data *= 1.5
"""Features are kept by key; an evaluation before the training filled the store with gradients off."""

import functools

import torch
from torch import nn

torch.manual_seed(0)
graph = torch.randn(6, 4)
encoder, head = nn.Linear(4, 5), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)


@functools.cache
def features(part):
    return torch.relu(encoder(graph[part * 3 : part * 3 + 3]))  # <- here


for part in (0, 1):
    with torch.no_grad():  # <- here
        print(part, float(head(features(part)).sigmoid().mean()))
for step in range(4):
    loss = (head(features(step % 2)) - 1.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
