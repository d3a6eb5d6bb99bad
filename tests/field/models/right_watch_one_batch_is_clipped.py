# from: own
# ask: watch
# exit: 0
# says: watched Sequential for 160 steps
# never: step \d+:
# One batch is harder, and clipping sees to it: the loss comes back in the next steps.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
direction = torch.randn(8)
for step in range(160):
    x = torch.randn(64, 8)
    y = x @ direction
    if step == 60:
        y = 6 * y
    loss = nn.functional.mse_loss(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
