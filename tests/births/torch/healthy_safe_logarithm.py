# from: https://github.com/pytorch/pytorch/issues/52248
# ask: explain --nonfinite PROGRAM:loss_of p='[0.0, 0.25, 0.75]'
# birth: healthy
import torch


def loss_of(p):
    present = p > 0
    safe = torch.where(present, p, 1.0)
    return -torch.where(present, p * safe.log(), 0.0).sum()
