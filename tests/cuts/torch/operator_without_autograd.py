# from: https://github.com/pytorch/pytorch/issues/62032
# ask: explain
# kind: new_numbers
# name: features.weight
# missing: features.weight.grad
# moves: features.weight.data *= 1.5
"""An operator of an extension has a kernel for the CPU and no formula for autograd."""

import ctypes
import warnings

import numpy as np
import torch
from torch import nn

warnings.filterwarnings("ignore", message=".*autograd kernel was not registered.*")
library = torch.library.Library("heldcuts", "FRAGMENT")


def kernel(x):
    out = torch.empty(x.shape)
    read, write = (
        np.ctypeslib.as_array(ctypes.cast(each.data_ptr(), ctypes.POINTER(ctypes.c_float)), (each.numel(),))
        for each in (x, out)
    )
    np.divide(read, 1 + np.abs(read), out=write)
    return out


if not hasattr(torch.ops.heldcuts, "gate"):
    library.define("gate(Tensor x) -> Tensor")
    library.impl("gate", kernel, "CPU")

torch.manual_seed(1)
features, readout = nn.Linear(4, 6), nn.Linear(6, 2)
optimizer = torch.optim.Adam([*features.parameters(), *readout.parameters()], lr=1e-2)
x, y = torch.randn(10, 4), torch.randint(0, 2, (10,))
for _ in range(3):
    h = features(x)
    gated = torch.ops.heldcuts.gate(h)  # <- here
    loss = nn.functional.cross_entropy(readout(gated), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
