# from: https://pytorch.org/tutorials/advanced/python_custom_ops.html
# ask: explain --nonfinite
# birth: forward
# name: scaled
# operands: 0.0 / 0.0
# value: loss
"""A custom operator divides each row by its greatest magnitude; an embedding for padding is zero."""

import torch


@torch.library.custom_op("births::by_rows", mutates_args=())
def by_rows(x: torch.Tensor) -> torch.Tensor:
    top = x.abs().amax(-1, keepdim=True)
    scaled = x / top  # <- here
    return scaled


def backward(ctx, gradient):
    return gradient / ctx.top


def setup(ctx, inputs, output):
    ctx.top = inputs[0].abs().amax(-1, keepdim=True)


by_rows.register_autograd(backward, setup_context=setup)
torch.manual_seed(0)
table = torch.nn.Embedding(5, 3, padding_idx=0)
head = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
words = torch.tensor([3, 1, 0, 2])
for _ in range(2):
    x = table(words)
    h = by_rows(x)  # <- here
    loss = head(h).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
