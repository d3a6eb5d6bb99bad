# from: https://github.com/deep-spin/entmax
# ask: explain
# says: all 4 parameters got a gradient
import torch
from entmax import entmax15_loss
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))

for step in range(20):
    optimizer.zero_grad()
    loss = entmax15_loss(model(x), y).mean()
    loss.backward()
    optimizer.step()

print(loss.item().hex(), sum(p.double().sum() for p in model.parameters()).item().hex())
