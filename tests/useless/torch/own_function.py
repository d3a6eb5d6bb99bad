# from: https://docs.pytorch.org/tutorials/beginner/examples_autograd/two_layer_net_custom_function.html
# truth: healthy: a Legendre polynomial with a backward of its own; coefficients that begin at 0 move in the first step
# kind: healthy
import math

import torch


class Legendre3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * (5 * x**3 - 3 * x)

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return upstream * 1.5 * (5 * x**2 - 1)


x = torch.linspace(-math.pi, math.pi, 400)
y = torch.sin(x)
a = torch.tensor(0.0, requires_grad=True)
b = torch.tensor(-1.0, requires_grad=True)
c = torch.tensor(0.0, requires_grad=True)
d = torch.tensor(0.3, requires_grad=True)
for t in range(6):
    loss = (a + b * Legendre3.apply(c + d * x) - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in (a, b, c, d):
            p -= 5e-5 * p.grad
            p.grad = None
    print(t, loss.item())
