# from: https://pytorch.org/docs/stable/special.html
# ask: explain --nonfinite PROGRAM:loss_of p='[0.2, 1.0, 0.4]' k='[3.0, 2.0, 0.0]'
# birth: forward
# name: failures
# operands: 2.0, -1.0
import torch


def loss_of(p, k):
    q = -p
    failures = torch.special.xlog1py(k, q)  # <- here
    return -failures.sum()
