# from: own
# ask: check PROGRAM:loss_of x=randn(3,2)
# exit: 1
# says: Cube
# never: every derivative is right
import torch


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x**2


def loss_of(x):
    y = Cube.apply(x)  # <- here
    return y.sum()


if __name__ == "__main__":
    x = torch.randn(3, 2, dtype=torch.double, requires_grad=True)
    print(torch.autograd.gradcheck(loss_of, x, raise_exception=False))
