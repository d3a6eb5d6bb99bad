# from: own
# ask: check PROGRAM:sparsemax x=[3.0,0.0,-1.0]
# exit: 0
# says: taken by itself, each call has the right derivative
# never: so large|note:
# One element has all the weight: the outputs are 1, 0 and 0, and none of them moves.
import torch


class Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ordered = x.sort(descending=True).values
        total = ordered.cumsum(0) - 1
        count = torch.arange(1, len(x) + 1, dtype=x.dtype)
        size = int((count * ordered > total).sum())
        weights = (x - total[size - 1] / size).clamp(min=0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, gradient):
        (weights,) = ctx.saved_tensors
        inside = (weights > 0).to(gradient)
        return inside * (gradient - (gradient * inside).sum() / inside.sum())


def sparsemax(x):
    weights = Sparsemax.apply(x)
    return (weights * weights).sum()
