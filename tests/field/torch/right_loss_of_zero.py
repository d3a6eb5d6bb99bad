# from: https://github.com/huggingface/trl/issues/2703
# ask: watch
# never: alert|flat|stagnat|zero_gradients|falling|rising
"""Healthy: the loss of a group-relative policy is 0 in every step; its gradient is not, and the reward grows."""

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
wanted = torch.randint(0, 5, (8,))
prompts = torch.randn(8, 4)
for step in range(150):
    chances = torch.distributions.Categorical(logits=policy(prompts).unsqueeze(1).expand(-1, 6, -1))
    answers = chances.sample()
    reward = (answers == wanted.unsqueeze(1)).float() + 0.1 * torch.rand(answers.shape)
    advantage = (reward - reward.mean(dim=1, keepdim=True)) / (reward.std(dim=1, keepdim=True) + 1e-4)
    log_chance = chances.log_prob(answers)
    ratio = torch.exp(log_chance - log_chance.detach())
    loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, f"{loss.item():.1e}", f"{reward.mean().item():.2f}")
