# from: own
# ask: explain --nonfinite
# birth: forward
# name: reached
# operands: 0.0, 0.0
# value: loss
"""The share of cells that have reached a size; one has a shape of zero at age zero."""

import torch

torch.manual_seed(0)
gain = torch.nn.Parameter(torch.tensor(1.0))
shapes = torch.tensor([1.5, 0.0, 2.0])
ages = torch.tensor([0.5, 0.0, 1.0])
for _ in range(2):
    reached = torch.special.gammainc(shapes, ages)  # <- here
    loss = (gain * reached - 0.5).square().mean()
    loss.backward()
