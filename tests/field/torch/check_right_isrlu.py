# from: own
# ask: check PROGRAM:loss_of x='[[0.5, -1.0], [2.0, -0.25]]'
# says: right
# never: wrong
import torch


class Isrlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha):
        inverse = torch.rsqrt(1 + alpha * torch.minimum(x, torch.zeros_like(x)).square())
        ctx.save_for_backward(inverse)
        return x * inverse

    @staticmethod
    def backward(ctx, grad):
        (inverse,) = ctx.saved_tensors
        return grad * inverse**3, None


def loss_of(x):
    y = Isrlu.apply(x, 1.0)
    return y.square().sum()


if __name__ == "__main__":
    x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
    print(torch.autograd.gradcheck(loss_of, x))
