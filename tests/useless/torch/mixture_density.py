# from: https://github.com/sagelywizard/pytorch-mdn
# truth: healthy: [N, 1] targets minus [N, K] means is wanted; the log-probabilities are of mixture parts
# kind: healthy
import math

import torch
from torch import nn


class Mdn(nn.Module):
    def __init__(self, k=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 20), nn.Tanh())
        self.pi, self.mu, self.sigma = nn.Linear(20, k), nn.Linear(20, k), nn.Linear(20, k)

    def forward(self, x):
        h = self.body(x)
        return torch.log_softmax(self.pi(h), 1), self.mu(h), self.sigma(h)


torch.manual_seed(0)
t = torch.rand(100, 1) * 2 - 1
x = t + 0.6 * torch.sin(5 * t) + 0.05 * torch.randn(100, 1)
model = Mdn()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(5):
    log_pi, mu, log_sigma = model(x)
    log_normal = -0.5 * ((t - mu) / log_sigma.exp()) ** 2 - log_sigma - 0.5 * math.log(2 * math.pi)
    loss = -torch.logsumexp(log_pi + log_normal, 1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
