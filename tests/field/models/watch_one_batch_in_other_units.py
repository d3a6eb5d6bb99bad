# from: https://theneuralbase.com/sft/learn/beginner/loss-spike-during-training/
# ask: watch
# exit: 0
# says: step (60|61|62|63|64|65|66|67|68):
# says: loss
# One batch is not normalised. The loss jumps there, and stays up.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
direction = torch.randn(8)
for step in range(100):
    x = torch.randn(64, 8)
    y = x @ direction
    if step == 60:
        x, y = 255 * x, 255 * y
    loss = nn.functional.mse_loss(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
