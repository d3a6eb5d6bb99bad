# from: https://github.com/pytorch/pytorch/pull/57110
# ask: explain PROGRAM:loss_of x='[[0.1, 0.7], [1.2, -0.3]]' w='[1.0, -2.0]'
# kind: same_numbers
# name: x
# missing: x
"""A capsule is handed to another library, which hands one back."""

import torch
from torch.utils import dlpack


def through_the_other_library(tensor):
    capsule = dlpack.to_dlpack(tensor)  # <- here
    return dlpack.from_dlpack(capsule)  # <- here


def loss_of(x, w):
    u = torch.exp(x) - 1.0
    v = through_the_other_library(u)  # <- here
    return (v @ w).square().sum()
