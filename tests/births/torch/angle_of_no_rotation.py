# from: https://github.com/banctilrobitaille/torch-vectorized/issues/7
# ask: explain --nonfinite PROGRAM:loss_of r='[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]'
# birth: backward
# name: cosine
# operands: 1.0
import torch


def loss_of(r):
    cosine = (r.diagonal().sum() - 1) / 2
    angle = torch.acos(cosine)  # <- here
    return angle + r.square().sum()
