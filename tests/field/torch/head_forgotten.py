# from: own
# exit: 1
# says: 2 parameters .*get gradients, and no optimizer
# says: head\.weight, head\.bias
# never: 'body
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for step in range(5):
    loss = nn.functional.mse_loss(head(body(x).relu()), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
