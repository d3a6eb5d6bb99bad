# from: https://github.com/pytorch/examples/pull/722
# ask: memory --steps 6
# exit: 0
# never: keeps the graphs
# never: next:
# REINFORCE: the log-probabilities of an episode wait for its end, and then the list is emptied.
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
policy.log_probs, policy.rewards = [], []
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(8):
    state = torch.randn(4)
    for turn in range(12):
        choice = Categorical(logits=policy(state))
        action = choice.sample()
        policy.log_probs.append(choice.log_prob(action))
        state = 0.9 * state + (0.1 if action else -0.1)
        policy.rewards.append(-state.abs().sum())
    returns = torch.stack(policy.rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(policy.log_probs) * (returns - returns.mean())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del policy.log_probs[:], policy.rewards[:]
