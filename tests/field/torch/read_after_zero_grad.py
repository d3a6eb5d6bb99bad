# from: own
# exit: 1
# says: zero_grad
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(8, 3)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()  # <- here
    print(step, "gradient of the weight:", model.weight.grad)
