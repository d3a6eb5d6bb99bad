# from: https://github.com/tensorflow/tensorflow/issues/59627
# ask: explain --nonfinite PROGRAM:entropy_of counts='[2.0, 0.0, 1.0]'
# birth: forward
# name: inner
# operands: 0.0
import torch


def entropy_of(counts):
    total = counts.sum()
    inner = torch.digamma(counts)  # <- here
    return torch.digamma(total) - (counts * inner).sum() / total
