# from: https://pytorch.org/tutorials/advanced/python_custom_ops.html
# ask: explain
# kind: none_from_backward
# name: mix
# missing: mix.grad
# moves: mix.data *= 1.5
"""The backward of a registered operator gives a gradient for its first argument, and None for the weights."""

import torch
from torch import nn


@torch.library.custom_op("heldcuts::blend", mutates_args=())
def blend(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return torch.einsum("bkd,k->bd", x, weights)


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[1])


def pull_back(ctx, gradient):
    (weights,) = ctx.saved_tensors
    return gradient[:, None] * weights[:, None], None  # <- here


blend.register_autograd(pull_back, setup_context=keep)

torch.manual_seed(2)
mix, head = nn.Parameter(torch.full((3,), 1 / 3)), nn.Linear(4, 1)
optimizer = torch.optim.SGD([mix, *head.parameters()], lr=0.1)
views, y = torch.randn(8, 3, 4), torch.randn(8, 1)
for _ in range(3):
    pooled = blend(views, mix)  # <- here
    loss = (head(pooled) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
