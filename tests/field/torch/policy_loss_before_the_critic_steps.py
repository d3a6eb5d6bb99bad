# from: https://github.com/sweetice/Deep-reinforcement-learning-with-pytorch/issues/50
# exit: 3
# says: critic_optimizer\.step\(\)
# says: policy_loss
# never: retain_graph=True
# Soft actor-critic: the policy's loss has saved the critic's weights, and the critic's step moves them.
import torch
from torch import nn


class Agent:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=3e-4)

    def act(self, state):
        mean, log_std = self.actor(state).chunk(2, -1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        raw = normal.rsample()
        action = raw.tanh()
        return action, normal.log_prob(raw) - (1 - action.pow(2) + 1e-6).log()

    def update(self, state, action, reward):
        value = self.critic(torch.cat([state, action], 1))
        critic_loss = (value - reward).square().mean()
        new_action, log_prob = self.act(state)
        policy_loss = (0.2 * log_prob - self.critic(torch.cat([state, new_action], 1))).mean()
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()  # <- here
        self.actor_optimizer.zero_grad()
        policy_loss.backward()  # <- here
        self.actor_optimizer.step()


torch.manual_seed(0)
agent = Agent()
for _ in range(3):
    agent.update(torch.randn(8, 3), torch.rand(8, 1), torch.randn(8, 1))
