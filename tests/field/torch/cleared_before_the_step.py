# from: own
# exit: 1
# says: SGD has stepped 2 times, and each time the gradients of all its parameters were None or 0
# says: next: zero_grad\(\), backward\(\) and step\(\), in this order
# never: all of them exactly 0
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for step in range(5):
    loss = nn.functional.mse_loss(layer(x), y)
    loss.backward()
    optimizer.zero_grad(set_to_none=False)
    optimizer.step()  # <- here
