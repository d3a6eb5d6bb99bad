# from: https://github.com/materialyzeai/matgl/issues/834
# ask: explain
# kind: no_grad
# name: bend
# missing: bend.grad
# moves: bend.data *= 1.5
"""The table of contexts has the wrong one for the geometry of a graph."""

import contextlib

import torch
from torch import nn

CONTEXTS = {"edges": contextlib.nullcontext, "angles": torch.inference_mode, "metrics": torch.no_grad}

torch.manual_seed(0)
bend, stretch = nn.Parameter(torch.tensor(0.7)), nn.Parameter(torch.tensor(1.3))
optimizer = torch.optim.SGD([bend, stretch], lr=0.01)
bonds = nn.functional.normalize(torch.randn(8, 3), dim=-1)
lengths, target = torch.rand(8) + 1.0, torch.tensor(2.0)
for _ in range(3):
    with CONTEXTS["edges"]():
        along = (stretch * lengths.log()).square().sum()
    with CONTEXTS["angles"]():  # <- here
        around = (bend * (bonds @ bonds.T)).square().mean()  # <- here
    loss = (along + around - target).square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
