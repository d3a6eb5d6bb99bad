# from: own
# ask: explain
# kind: healthy
"""Forces that are slopes of an energy, with the graph that they need to be learned."""

import torch
from torch import nn

torch.manual_seed(0)
energy_of = nn.Sequential(nn.Linear(3, 12), nn.SiLU(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(energy_of.parameters(), lr=1e-2)
places, measured, total = torch.randn(6, 3, requires_grad=True), torch.randn(6, 3), torch.tensor(-1.0)
for _ in range(3):
    energy = energy_of(places).sum()
    (slope,) = torch.autograd.grad(energy, places, create_graph=True)
    loss = (-slope - measured).square().mean() + (energy - total).square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
