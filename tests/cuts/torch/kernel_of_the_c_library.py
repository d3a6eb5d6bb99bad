# from: own
# ask: explain PROGRAM:loss_of x='[0.2, 1.4, -0.6]' w='[1.5, 0.5, 1.0]'
# kind: left_framework
# name: x
# missing: x
"""The C library has a function that the framework lacks (here one that it has), called a number at a time."""

import ctypes

import torch

libm = ctypes.CDLL(None)
libm.erfc.restype = ctypes.c_double
libm.erfc.argtypes = [ctypes.c_double]


def tail(values):
    return torch.tensor([libm.erfc(value) for value in values])  # <- here


def loss_of(x, w):
    z = x * 2.0 - 0.5
    p = tail(z)  # <- here
    return (p * w).square().sum()
