# from: https://github.com/hoyeoplee/MeLU/issues/9
# ask: explain
# kind: same_numbers
# name: generator.weight
# missing: generator.weight.grad
# moves: generator.weight.data *= 1.5
"""Weights that another network makes are loaded into a model, whose parameters stay leaves of their own."""

import torch
from torch import nn

torch.manual_seed(0)
task, generator = nn.Parameter(torch.randn(4)), nn.Linear(4, 3 * 2 + 2)
learner, scale = nn.Linear(3, 2), nn.Parameter(torch.ones(2))
optimizer = torch.optim.Adam([task, *generator.parameters(), scale], lr=1e-2)
x, y = torch.randn(10, 3), torch.randn(10, 2)
for _ in range(3):
    made = generator(task)
    fast = {"weight": made[:6].view(2, 3), "bias": made[6:]}
    learner.load_state_dict(fast)  # <- here
    predicted = learner(x) * scale
    loss = (predicted - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
