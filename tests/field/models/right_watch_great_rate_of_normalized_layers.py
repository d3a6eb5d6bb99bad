# from: own
# ask: watch
# exit: 0
# says: watched
# never: step \d+:
# A rate of 1 is right for SGD where the loss is a mean over many outputs.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
turn = torch.randn(16, 16) / 4
for step in range(80):
    x = torch.randn(128, 16)
    loss = nn.functional.mse_loss(model(x), x @ turn)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
