# from: https://github.com/rail-berkeley/softlearning/issues/163
# exit: 3
# says: a second time
# says: log_alpha
# never: next: (\S+ ){0,3}retain_graph=True
# Soft actor-critic: the temperature is computed when the agent is made, and used in every update.
import torch
from torch import nn


class Agent:
    def __init__(self):
        self.actor = nn.Linear(3, 4)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.alpha = self.log_alpha.exp()  # <- here
        self.by_actor = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.by_alpha = torch.optim.Adam([self.log_alpha], lr=3e-3)

    def act(self, state):
        mean, log_std = self.actor(state).chunk(2, -1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-4, 2).exp())
        action = normal.rsample()
        return action, normal.log_prob(action).sum(-1)

    def update(self, state):
        action, log_prob = self.act(state)
        actor_loss = (self.alpha.detach() * log_prob + action.square().sum(-1)).mean()
        self.by_actor.zero_grad()
        actor_loss.backward()
        self.by_actor.step()
        alpha_loss = -(self.alpha * (log_prob - 2).detach()).mean()
        self.by_alpha.zero_grad()
        alpha_loss.backward()
        self.by_alpha.step()


torch.manual_seed(0)
agent = Agent()
for _ in range(3):
    agent.update(torch.randn(16, 3))
