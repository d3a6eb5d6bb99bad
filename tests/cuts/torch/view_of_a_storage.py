# from: own
# ask: explain PROGRAM:loss_of x='[1.0, -2.0, 0.5, 3.0]' w='[1.0, 2.0]'
# kind: same_numbers
# name: x
# missing: x
"""Overlapping windows are laid over the memory of a tensor."""

import torch


def windows(t, size):
    laid = torch.empty(0).set_(t.untyped_storage(), 0, (t.numel() - size + 1, size), (1, 1))  # <- here
    return laid


def loss_of(x, w):
    u = torch.nn.functional.softplus(x)
    frames = windows(u, 2)  # <- here
    return (frames @ w).square().mean()
