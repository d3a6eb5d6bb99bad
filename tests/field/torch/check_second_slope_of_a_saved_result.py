# from: own
# ask: check --order 2 PROGRAM:layer "x=[0.3,-0.7,1.1]" "w=[0.5,2.0,-1.0]"
# exit: 1
# says: second
# says: 'y'|Sigmoid|Gate
# The first slope is right. The result is kept on `ctx` and not saved: the slope of the slope takes it for a constant.
import torch


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.result = x.sigmoid()
        return ctx.result.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.result * (1 - ctx.result)


def layer(x, w):
    y = Gate.apply(x * w)  # <- here
    return (y * w).sum()
