# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 2)
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, state):
        return torch.distributions.Normal(self.mean(state), self.log_std.exp())


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = Policy()

    def forward(self, state, action):
        return -self.policy(state).log_prob(action).sum(-1).mean()


torch.manual_seed(0)
agent = Agent()
state, action = torch.randn(4, 3), torch.randn(4, 2)
rec = bp.probe(agent)(state, action)
assert any(name == "policy" or name.startswith("policy:return") for name in rec), list(rec)
assert rec["policy.log_std"].grad.abs().sum() > 0
with bp.probe(agent) as rec:
    agent(state, action).backward()
assert any(name == "policy" or name.startswith("policy:return") for name in rec), list(rec)
