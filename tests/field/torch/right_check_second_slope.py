# from: own
# ask: check --order 2 PROGRAM:layer "x=[0.3,-0.7,1.1]" "w=[0.5,2.0,-1.0]"
# never: wrong
# What is saved is the result itself, so that the slope has a slope.
import torch


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x.sigmoid()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        (result,) = ctx.saved_tensors
        return gradient * result * (1 - result)


def layer(x, w):
    y = Gate.apply(x * w)
    return (y * w).sum()
