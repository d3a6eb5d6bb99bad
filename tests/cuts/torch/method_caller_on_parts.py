# from: own
# ask: explain PROGRAM:loss_of x='[0.3, -0.8, 1.1]' w='[2.0, 1.0, 0.5]'
# kind: left_framework
# name: x
# missing: x
from operator import methodcaller

import torch

plain = methodcaller("tolist")


def loss_of(x, w):
    u = x * x + 1.0
    rows = plain(u)  # <- here
    scale = sum(rows) / len(rows)
    return (w * scale).sum() + torch.log1p(w * w).mean()
