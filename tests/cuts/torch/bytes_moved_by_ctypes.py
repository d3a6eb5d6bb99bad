# from: own
# ask: explain PROGRAM:loss_of x='[1.0, 2.0, 3.0, 4.0]' w='[0.1, 0.2, 0.3, 0.4]'
# kind: same_numbers
# name: x
# missing: x
"""A buffer is kept between calls, as an extension for a device does, and the bytes are moved into it."""

import ctypes

import torch

staging = torch.empty(4)


def loss_of(x, w):
    u = torch.sin(x) + x
    ctypes.memmove(staging.data_ptr(), u.data_ptr(), u.nbytes)  # <- here
    weighted = staging * w
    return weighted.square().sum()
