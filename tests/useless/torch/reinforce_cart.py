# from: https://github.com/pytorch/examples/blob/main/reinforcement_learning/reinforce.py
# truth: healthy: the returns are normalised within an episode, but differ; some dropout lets some units go
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1, self.dropout, self.affine2 = nn.Linear(2, 32), nn.Dropout(p=0.6), nn.Linear(32, 2)

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.dropout(self.affine1(x)))), dim=1)


torch.manual_seed(543)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(3):
    place, speed, log_probs, rewards = 0.5, 0.0, [], []
    for _ in range(12):
        chance = Categorical(policy(torch.tensor([[place, speed]])))
        action = chance.sample()
        log_probs.append(chance.log_prob(action))
        speed += 0.1 if action.item() else -0.1
        place += speed
        rewards.append(1.0 - abs(place))
    back, returns = 0.0, []
    for r in reversed(rewards):
        back = r + 0.99 * back
        returns.insert(0, back)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    loss = torch.cat([-lp * ret for lp, ret in zip(log_probs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(episode, sum(rewards))
