# from: https://theneuralbase.com/keras/learn/beginner/loss-not-decreasing-learning-rate/
# ask: watch
# exit: 0
# says: step \d+: .*updates
# says: learning rate
# Adam moves each weight by its rate: by one.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
for step in range(60):
    x = torch.randn(64, 8)
    loss = nn.functional.mse_loss(model(x).squeeze(1), x[:, 0] * x[:, 1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
