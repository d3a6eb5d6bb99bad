# from: https://github.com/pytorch/pytorch/issues/10737
# ask: explain
# kind: same_numbers
# name: encoder.0.weight
# missing: encoder[0].weight.grad
# moves: encoder[0].weight.data *= 1.5
"""A model is called with its own state, which a state dict holds without a history."""

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
encoder, head = nn.Sequential(nn.Linear(3, 5), nn.ELU()), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
x, y = torch.randn(7, 3), torch.randn(7, 1)
for _ in range(3):
    weights = dict(encoder.state_dict())  # <- here
    z = functional_call(encoder, weights, (x,))  # <- here
    loss = (head(z) - y).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
