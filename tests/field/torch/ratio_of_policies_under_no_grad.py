# from: https://github.com/thu-ml/tianshou/issues/742
# exit: 1
# says: actor
# says: no_grad
# never: critic\.(0|2)\.weight
# The ratio of the new policy to the old one is computed where nothing is recorded: only the critic learns.
import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)


def policy(observations):
    return Normal(actor(observations), torch.ones(2) * 0.5)


for iteration in range(2):
    observations, rewards = torch.randn(64, 3), torch.randn(64)
    with torch.no_grad():
        actions = policy(observations).sample()
        old = policy(observations).log_prob(actions).sum(-1)
        advantages = rewards - critic(observations).squeeze(-1)
    for epoch in range(2):
        for rows in torch.randperm(64).split(32):
            batch = advantages[rows]
            batch = (batch - batch.mean()) / batch.std()
            with torch.no_grad():  # <- here
                now = policy(observations[rows]).log_prob(actions[rows]).sum(-1)
                ratio = (now - old[rows]).exp()
            clipped = ratio.clamp(0.8, 1.2)
            gain = torch.min(ratio * batch, clipped * batch).mean()
            fit = (critic(observations[rows]).squeeze(-1) - rewards[rows]).square().mean()
            loss = 0.5 * fit - gain
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            optimizer.step()
