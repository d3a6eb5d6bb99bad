# from: https://github.com/X-GenGroup/Flow-Factory/pull/186
# exit: 1
# says: autocast
# says: cache
# Autocast keeps each weight in 16 bits until it ends, and it ends behind the last step: the loss never moves.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 4)
y = x.sum(1, keepdim=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    for step in range(5):
        loss = (model(x) - y).square().mean()  # <- here
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
