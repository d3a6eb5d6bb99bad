# from: https://github.com/pytorch/pytorch/issues/4355
# ask: check PROGRAM:loss_of x='[[0.5, -1.0], [2.0, -0.25]]'
# exit: 1
# says: Isrlu
# never: every derivative is right
import torch


class Isrlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha):
        below = torch.minimum(x, torch.zeros_like(x))
        inverse = torch.rsqrt(1 + alpha * below.square())
        ctx.save_for_backward(inverse)
        return x * inverse

    @staticmethod
    def backward(ctx, grad):
        (inverse,) = ctx.saved_tensors
        return inverse**3, None


def loss_of(x):
    y = Isrlu.apply(x, 1.0)  # <- here
    return y.square().sum()


if __name__ == "__main__":
    x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
    print(torch.autograd.gradcheck(loss_of, x, raise_exception=False))
