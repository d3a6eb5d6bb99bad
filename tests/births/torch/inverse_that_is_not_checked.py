# from: https://pytorch.org/docs/stable/generated/torch.linalg.inv_ex.html
# ask: explain --nonfinite PROGRAM:loss_of a='[[1.0, 2.0], [2.0, 4.0]]' y='[1.0, -1.0]'
# birth: forward
# name: inverse
# operands: pivot 0
import torch


def loss_of(a, y):
    gram = a * 0.5
    inverse, info = torch.linalg.inv_ex(gram)  # <- here
    return (inverse @ y).square().sum()
