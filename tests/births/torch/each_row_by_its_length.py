# from: https://pytorch.org/docs/stable/generated/torch.vmap.html
# ask: explain --nonfinite PROGRAM:loss_of rows='[[3.0, 4.0], [0.0, 0.0]]' w='[0.5, 2.0]'
# birth: forward
# name: unit
# operands: 0.0 / 0.0
import torch


def directed(row):
    length = row.abs().max()
    unit = row / length  # <- here
    return unit


def loss_of(rows, w):
    units = torch.vmap(directed)(rows)  # <- here
    return (units @ w).sum()
