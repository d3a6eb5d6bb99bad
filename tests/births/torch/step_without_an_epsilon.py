# from: https://github.com/ml-explore/mlx/pull/3712
# ask: explain --nonfinite
# birth: forward
# name: layer
# operands: 0.0 / 0.0
# value: layer.weight
"""An optimizer without an epsilon meets a gradient of zero."""

import torch

torch.manual_seed(0)
layer = torch.nn.Linear(3, 1, bias=False)
optimizer = torch.optim.RMSprop(layer.parameters(), lr=0.01, eps=0.0)
x = torch.tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 1.0]])
for _ in range(3):
    loss = layer(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    gradient = layer.weight.grad
    optimizer.step()  # <- here
