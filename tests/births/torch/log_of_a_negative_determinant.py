# from: https://pytorch.org/docs/stable/generated/torch.logdet.html
# ask: explain --nonfinite PROGRAM:loss_of flow='[[1.0, 2.0], [2.0, 1.0]]'
# birth: forward
# name: volume
# operands: determinant -3
import torch


def loss_of(flow):
    h = flow * 1.0
    volume = torch.logdet(h)  # <- here
    return -volume + h.square().sum()
