# from: https://github.com/fastai/fastai/issues/2616
# ask: explain
# kind: same_numbers
# name: backbone.weight
# missing: backbone.weight.grad
# moves: backbone.weight.data *= 1.5
"""A subclass that carries a tag is made of a tensor as of data."""

import torch
from torch import nn


class Tagged(torch.Tensor):
    @classmethod
    def of(cls, tensor, tag):
        made = torch.Tensor._make_subclass(cls, tensor)  # <- here
        made.tag = tag
        return made


torch.manual_seed(0)
backbone, head = nn.Linear(3, 4), nn.Linear(4, 2)
optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.1)
x, t = torch.randn(9, 3), torch.randint(0, 2, (9,))
for _ in range(3):
    features = Tagged.of(backbone(x).tanh(), "boxes")  # <- here
    loss = nn.functional.cross_entropy(head(features), t)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
