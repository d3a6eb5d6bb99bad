# from: own
# ask: explain
# kind: healthy
"""A policy gradient: actions leave for an environment in NumPy, rewards come back as numbers."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
generator = np.random.default_rng(0)
policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(3):
    state, taken, rewards = generator.normal(size=3), [], []
    for _ in range(8):
        choice = torch.distributions.Categorical(logits=policy(torch.from_numpy(state).float()))
        action = choice.sample()
        taken.append(choice.log_prob(action))
        state = 0.9 * state + 0.1 * (action.item() * 2 - 1) + 0.01 * generator.normal(size=3)
        rewards.append(-float(np.abs(state).sum()))
    returns = np.cumsum(rewards[::-1])[::-1].copy()
    weights = torch.from_numpy(returns - returns.mean()).float()
    loss = -(torch.stack(taken) * weights).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
