# from: https://github.com/pytorch/pytorch/issues/76531
# ask: explain --nonfinite PROGRAM:loss_of spread='[[2.0, 0.0], [0.0, 2.0]]'
# birth: backward
# name: spread
# operands: 2.0, 2.0
import torch


def loss_of(spread):
    sizes, axes = torch.linalg.eigh(spread)  # <- here
    return (axes[0] * sizes).sum()
