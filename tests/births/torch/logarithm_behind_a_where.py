# from: https://github.com/pytorch/pytorch/issues/108618
# ask: explain --nonfinite PROGRAM:loss_of x='[0.0, 2.0, 3.0]'
# birth: forward
# name: logs
# operands: 0.0
import torch


def loss_of(x):
    logs = torch.log2(x)  # <- here
    y = torch.where(x > 2, logs, 2 * x)
    return y.sum()
