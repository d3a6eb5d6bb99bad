# from: own
# exit: 1
# says: actor
# says: no gradient
# DDPG: the policy is judged by the actions of the memory and not by its own.
import random
from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh())
critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
by_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
by_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
memory = deque(maxlen=500)
state = torch.randn(3)
for step in range(60):
    with torch.no_grad():
        action = actor(state) + 0.1 * torch.randn(1)  # <- here
    after = 0.9 * state + 0.1 * action
    memory.append((state, action, -after.square().sum()[None], after))
    state = after
    if len(memory) < 50:
        continue
    states, actions, rewards, nexts = (torch.stack(part) for part in zip(*random.sample(memory, 32)))
    with torch.no_grad():
        goal = rewards + 0.99 * critic(torch.cat([nexts, actor(nexts)], 1))
    fit = (critic(torch.cat([states, actions], 1)) - goal).square().mean()
    by_critic.zero_grad()
    fit.backward()
    by_critic.step()
    policy_loss = -critic(torch.cat([states, actions], 1)).mean()
    by_actor.zero_grad()
    policy_loss.backward()
    by_actor.step()
