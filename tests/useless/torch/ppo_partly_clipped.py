# from: https://github.com/vwxyzjn/cleanrl/blob/master/cleanrl/ppo.py
# truth: healthy: some ratios are outside of the clip and have no slope, the others do; advantages differ
# kind: healthy
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(1)
critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam([*critic.parameters(), *actor.parameters()], lr=0.02, eps=1e-5)
obs = torch.randn(64, 4)
with torch.no_grad():
    old = Categorical(logits=actor(obs))
    actions = old.sample()
    old_logprob, old_values = old.log_prob(actions), critic(obs).view(-1)
    returns = (actions == obs[:, :3].argmax(1)).float()
    advantages = returns - old_values
for epoch in range(4):
    for index in torch.randperm(64).view(2, 32):
        pi = Categorical(logits=actor(obs[index]))
        ratio = (pi.log_prob(actions[index]) - old_logprob[index]).exp()
        adv = advantages[index]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
        values = critic(obs[index]).view(-1)
        clipped = old_values[index] + (values - old_values[index]).clamp(-0.2, 0.2)
        v_loss = 0.5 * torch.max((values - returns[index]) ** 2, (clipped - returns[index]) ** 2).mean()
        loss = pg_loss - 0.01 * pi.entropy().mean() + 0.5 * v_loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([*critic.parameters(), *actor.parameters()], 0.5)
        optimizer.step()
    print(epoch, loss.item())
