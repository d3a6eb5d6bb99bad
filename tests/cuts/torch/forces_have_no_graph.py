# from: https://github.com/aiqm/torchani/pull/238
# ask: explain
# kind: new_numbers
# name: energy_of.0.weight
# missing: energy_of[0].weight.grad
# moves: energy_of[0].weight.data *= 1.5
"""Forces are the slope of an energy; they are compared with measured ones, and keep no graph."""

import torch
from torch import nn
from torch.autograd import grad as slope_of

torch.manual_seed(0)
energy_of, unit = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1)), nn.Parameter(torch.ones(()))
optimizer = torch.optim.Adam([*energy_of.parameters(), unit], lr=1e-2)
places, measured = torch.randn(5, 3, requires_grad=True), torch.randn(5, 3)
for _ in range(3):
    energy = energy_of(places).sum()
    pull = slope_of(energy, places)[0]  # <- here
    forces = -unit * pull
    loss = (forces - measured).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
