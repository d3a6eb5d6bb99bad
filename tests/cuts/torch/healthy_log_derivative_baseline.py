# from: own
# ask: explain
# kind: healthy
"""The advantage is held fixed for the policy; the critic learns from its own loss."""

import torch
from torch import nn

torch.manual_seed(0)
trunk, actor, critic = nn.Linear(5, 8), nn.Linear(8, 3), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*trunk.parameters(), *actor.parameters(), *critic.parameters()], lr=1e-2)
state, reward = torch.randn(40, 5), torch.randn(40)
for _ in range(3):
    h = trunk(state).tanh()
    policy, value = torch.distributions.Categorical(logits=actor(h)), critic(h)[:, 0]
    advantage = reward - value.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    surrogate = policy.log_prob(policy.sample()) * advantage
    loss = -surrogate.mean() + 0.5 * (value - reward).square().mean() - 0.01 * policy.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
