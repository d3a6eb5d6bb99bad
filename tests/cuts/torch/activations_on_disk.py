# from: own
# ask: explain
# kind: same_numbers
# name: stem.weight
# missing: stem.weight.grad
# moves: stem.weight.data *= 1.5
"""A stage of a pipeline hands its activations on through a file, which here stays in memory."""

import io

import torch
from torch import nn


def handed_on(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file)  # <- here


torch.manual_seed(0)
stem, top = nn.Linear(5, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*stem.parameters(), *top.parameters()], lr=0.1)
x, y = torch.randn(8, 5), torch.randn(8, 1)
for _ in range(3):
    sent = stem(x).relu()
    received = handed_on(sent)  # <- here
    loss = (top(received) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
