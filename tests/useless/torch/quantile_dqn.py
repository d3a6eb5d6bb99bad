# from: https://github.com/BY571/QR-DQN/issues/1
# truth: healthy: each predicted quantile is compared with each target quantile, [B, N, 1] - [B, 1, N], on purpose
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
N = 8
tau = (torch.arange(N) + 0.5) / N
online = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2 * N))
target = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2 * N))
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
for step in range(3):
    state, action, reward = torch.randn(16, 3), torch.randint(0, 2, (16,)), torch.randn(16, 1)
    with torch.no_grad():
        after = target(state + 0.1).view(16, 2, N)
        best = after.mean(2).argmax(1)
        wanted = reward + 0.9 * after[torch.arange(16), best]
    quantiles = online(state).view(16, 2, N)[torch.arange(16), action]
    error = wanted[:, None, :] - quantiles[:, :, None]
    huber = torch.where(error.abs() <= 1, 0.5 * error.pow(2), error.abs() - 0.5)
    loss = ((tau[:, None] - (error.detach() < 0).float()).abs() * huber).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
