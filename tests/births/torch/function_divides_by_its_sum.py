# from: https://pytorch.org/docs/stable/notes/extending.html
# ask: explain --nonfinite PROGRAM:loss_of x='[[1.0, -1.0], [2.0, 3.0]]' w='[1.0, 2.0]'
# birth: forward
# name: shares
# operands: 1.0 / 0.0
import torch


class Shares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        total = x.sum(-1, keepdim=True)
        shares = x / total  # <- here
        ctx.save_for_backward(shares, total)
        return shares

    @staticmethod
    def backward(ctx, g):
        shares, total = ctx.saved_tensors
        return (g - (g * shares).sum(-1, keepdim=True)) / total


def loss_of(x, w):
    p = Shares.apply(x)  # <- here
    return (p * w).sum()
