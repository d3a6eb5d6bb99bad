# from: https://github.com/IBM/aihwkit/issues/446
# ask: watch
# says: zero_grad
# never: learning rate is too|exploding|dead
"""A single layer is fitted to four numbers, and its gradients are added up from turn to turn."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.tensor([[0.1, 0.2, 0.4, 0.3], [0.2, 0.1, 0.1, 0.3]])
y = torch.tensor([[1.0, 0.5], [0.7, 0.3]])
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(100):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
