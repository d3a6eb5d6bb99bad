# from: https://pytorch.org/tutorials/advanced/python_custom_ops.html
# ask: explain
# kind: healthy
"""A kernel of NumPy is registered as an operator, with its formula for the backward pass."""

import numpy as np
import torch
from torch import nn


@torch.library.custom_op("heldcuts::softsign", mutates_args=())
def softsign(x: torch.Tensor) -> torch.Tensor:
    rows = x.detach().numpy()
    return torch.from_numpy(rows / (1 + np.abs(rows)))


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def slope(ctx, gradient):
    return gradient / (1 + ctx.saved_tensors[0].abs()) ** 2


softsign.register_autograd(slope, setup_context=keep)

torch.manual_seed(0)
first, second = nn.Linear(4, 6), nn.Linear(6, 1)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
x, y = torch.randn(11, 4), torch.randn(11, 1)
for _ in range(3):
    loss = (second(softsign(first(x))) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
