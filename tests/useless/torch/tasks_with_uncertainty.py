# from: https://github.com/yaringal/multi-task-learning-example
# truth: healthy: the learned log-variances begin at 0 and weigh two losses
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
trunk, number, kind = nn.Sequential(nn.Linear(5, 16), nn.Tanh()), nn.Linear(16, 1), nn.Linear(16, 3)
log_vars = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.Adam([*trunk.parameters(), *number.parameters(), *kind.parameters(), log_vars], lr=0.01)
x = torch.randn(48, 5)
y1, y2 = 10 * x[:, :1], x[:, 1:4].argmax(1)
for epoch in range(4):
    h = trunk(x)
    parts = torch.stack([nn.functional.mse_loss(number(h), y1), nn.functional.cross_entropy(kind(h), y2)])
    loss = (torch.exp(-log_vars) * parts + log_vars).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item(), log_vars.tolist())
