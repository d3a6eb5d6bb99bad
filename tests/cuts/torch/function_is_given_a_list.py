# from: https://github.com/pytorch/pytorch/issues/103155
# ask: explain
# kind: new_numbers
# name: left.weight
# missing: left.weight.grad
# moves: left.weight.data *= 1.5
"""Tensors within a list are no inputs of an autograd.Function, so its result has no history."""

import torch
from torch import nn


class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, columns):
        ctx.count = len(columns)
        return torch.stack([column.amax(-1) for column in columns], -1)

    @staticmethod
    def backward(ctx, gradient):
        return list(gradient.unbind(-1))


torch.manual_seed(0)
left, right, head = nn.Linear(3, 5), nn.Linear(3, 5), nn.Linear(2, 1)
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters(), *head.parameters()], lr=0.1)
x, y = torch.randn(9, 3), torch.randn(9, 1)
for _ in range(3):
    columns = [left(x), right(x)]
    joined = Gathered.apply(columns)  # <- here
    loss = (head(joined) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
