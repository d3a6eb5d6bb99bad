# from: https://github.com/jeanfeydy/geomloss/issues/40
# never: no_grad
# never: got no gradient
# never: detach
"""Healthy: potentials are found with gradients off; the last update, with them on, has the right derivative."""

import torch
from torch import nn

torch.manual_seed(0)


def transport(x, y, eps=0.1, turns=20):
    weights = torch.full((len(x),), 1 / len(x)).log(), torch.full((len(y),), 1 / len(y)).log()
    torch.autograd.set_grad_enabled(False)
    cost = torch.cdist(x, y) ** 2 / 2
    f, g = torch.zeros(len(x)), torch.zeros(len(y))
    for _ in range(turns):
        f = -eps * torch.logsumexp(weights[1] + (g - cost) / eps, dim=1)
        g = -eps * torch.logsumexp(weights[0] + (f - cost.T) / eps, dim=1)
    torch.autograd.set_grad_enabled(True)
    cost = ((x.unsqueeze(1) - y.unsqueeze(0)) ** 2).sum(2) / 2
    last_f = -eps * torch.logsumexp(weights[1] + (g - cost) / eps, dim=1)
    last_g = -eps * torch.logsumexp(weights[0] + (f - cost.T) / eps, dim=1)
    return last_f.mean() + last_g.mean()


generator = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(generator.parameters(), lr=1e-2)
for step in range(3):
    loss = transport(generator(torch.randn(24, 2)), torch.randn(24, 2) + 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
