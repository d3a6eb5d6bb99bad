# from: https://pytorch.org/docs/stable/notes/extending.html
# ask: explain --nonfinite PROGRAM:loss_of x='[4.0, 0.0, 1.0]'
# birth: backward
# name: x
# operands: 0.0 / 0.0
import torch


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.pow(0.5)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return 0.5 * g / y  # <- here


def loss_of(x):
    root = Root.apply(x)  # <- here
    return root.square().sum()
