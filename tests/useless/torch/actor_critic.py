# from: https://github.com/pytorch/examples/blob/main/reinforcement_learning/actor_critic.py
# truth: healthy: the advantage is a number without history, the value head learns by its own loss
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine, self.action_head, self.value_head = nn.Linear(3, 24), nn.Linear(24, 3), nn.Linear(24, 1)

    def forward(self, x):
        x = F.relu(self.affine(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


torch.manual_seed(0)
model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
for episode in range(3):
    saved, rewards = [], []
    for _ in range(10):
        state = torch.eye(3)[torch.randint(0, 3, ())]
        probs, value = model(state)
        m = Categorical(probs)
        action = m.sample()
        saved.append((m.log_prob(action), value))
        rewards.append(1.0 if state[action] == 1 else 0.0)
    r, returns = 0.0, []
    for reward in rewards[::-1]:
        r = reward + 0.9 * r
        returns.insert(0, r)
    policy_losses, value_losses = [], []
    for (log_prob, value), ret in zip(saved, returns):
        advantage = ret - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([ret])))
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(episode, sum(rewards))
