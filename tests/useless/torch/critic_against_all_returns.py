# from: https://github.com/RLinf/RLinf/issues/1568
# truth: the values are [B] and the returns [B, 1], and so their difference compares each state with all returns
# kind: outer product
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, obs):
        return self.net(obs).squeeze(-1)


torch.manual_seed(0)
obs = torch.randn(32, 3)
rewards = torch.stack([obs[:, 0] * t for t in (1.0, 0.9, 0.81)], 1)
returns = rewards.sum(1, keepdim=True)
critic = Critic()
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
for epoch in range(5):
    values = critic(obs)
    errors = returns - values  # <- here
    value_loss = 0.5 * errors.pow(2).mean()
    optimizer.zero_grad()
    value_loss.backward()
    optimizer.step()
    print(epoch, value_loss.item())
