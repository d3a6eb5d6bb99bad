# from: https://github.com/pytorch/pytorch/issues/49886
# ask: explain --nonfinite PROGRAM:loss_of m='[[3.0, 0.0], [0.0, 3.0]]'
# birth: backward
# name: m
# operands: 3.0, 3.0
import torch


def loss_of(m):
    u, s, v = torch.linalg.svd(m)  # <- here
    return (u[0] * s).sum()
