# from: own
# truth: the parameter log_std begins at 3, above the upper end of its clamp, and so never gets a slope
# kind: zero
# names: log_std
import torch
from torch import nn

torch.manual_seed(0)
LOG_STD_MIN, LOG_STD_MAX = -20, 2


class GaussianPolicy(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, 32), nn.Tanh(), nn.Linear(32, n_act))
        self.log_std = nn.Parameter(torch.full((n_act,), 3.0))

    def forward(self, obs):
        log_std = self.log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)  # <- here
        return torch.distributions.Normal(self.body(obs), log_std.exp())


policy = GaussianPolicy(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
obs = torch.randn(128, 4)
for update in range(4):
    pi = policy(obs)
    act = pi.sample()
    reward = -(act - obs[:, :2]).pow(2).sum(1)
    advantage = (reward - reward.mean()) / reward.std()
    loss = -(pi.log_prob(act).sum(1) * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(update, reward.mean().item(), policy.log_std.tolist())
