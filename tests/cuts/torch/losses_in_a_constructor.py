# from: https://github.com/pytorch/pytorch/issues/61410
# ask: explain
# kind: left_framework
# name: first.weight
# missing: first.weight.grad
# moves: first.weight.data *= 1.5
"""The losses of two tasks are put into a new tensor to be weighted."""

import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore", message="Converting a tensor with requires_grad=True")
torch.manual_seed(0)
first, second, weighting = nn.Linear(4, 1), nn.Linear(4, 1), nn.Parameter(torch.zeros(2))
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters(), weighting], lr=0.1)
x, y = torch.randn(12, 4), torch.randn(12, 2)
for _ in range(3):
    terms = [(task(x)[:, 0] - y[:, at]).square().mean() for at, task in enumerate((first, second))]
    each = torch.Tensor(terms)  # <- here
    loss = (weighting.softmax(0) * each).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
