"""Programs whose first derivatives are right: what ``bp.check(..., order=2)`` says of their second ones.

The comment ``# second`` marks the line whose second derivative is wrong, zero or refused; a program without it is
right. ``KINDS`` says which it is. The truth is the formula in the name, whose second derivative is known.
"""

import numpy
import torch
from torch import nn
from torch.autograd.function import once_differentiable

KINDS = {}
"""What is the matter with the second derivative of a program: zero, wrong, refused; right without a mark."""


def case(kind):
    def kept(program):
        KINDS[program] = kind
        return program

    return kept


class DetachedCube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x.detach() ** 2


class OnceCube(DetachedCube):
    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


class SavedSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(3 * x**2)  # computed where nothing is recorded
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (slope,) = ctx.saved_tensors
        return grad * slope


class NumpyCube(DetachedCube):
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.from_numpy(3 * numpy.square(x.detach().numpy()))


class NoGradCube(DetachedCube):
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            return grad * 3 * x**2


class DetachedGrad(DetachedCube):
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad.detach() * 3 * x**2


class CubeSlope(torch.autograd.Function):
    """The slope of the cube times a gradient, and a backward of its own that forgets a factor 2."""

    @staticmethod
    def forward(ctx, grad, x):
        ctx.save_for_backward(grad, x)
        return grad * 3 * x**2

    @staticmethod
    def backward(ctx, again):
        grad, x = ctx.saved_tensors
        return again * 3 * x**2, again * grad * 3 * x


class WrongTwice(DetachedCube):
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return CubeSlope.apply(grad, x)


class RightCube(DetachedCube):
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad


class Rectified(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask


class HalfDetachedProduct(torch.autograd.Function):
    """The mixed second derivative is there with respect to one factor, and not to the other."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a.detach()


@case("zero")
def detached(x):
    u = torch.sin(x)
    v = DetachedCube.apply(u)  # second
    return v.sum()


@case("refused")
def once(x):
    u = torch.sin(x)
    return OnceCube.apply(u).sum()  # second


@case("zero")
def saved_slope(x):
    u = x * 2
    u = SavedSlope.apply(u)  # second
    return (u * x).sum()


@case("zero")
def through_numpy(x):
    return NumpyCube.apply(x).sum()  # second


@case("zero")
def without_grad(x):
    u = torch.exp(x)
    w = NoGradCube.apply(u)  # second
    return w.mean()


@case("zero")
def detached_grad(x):
    u = DetachedGrad.apply(x)  # second
    return (u * u).sum()


@case("wrong")
def wrong_twice(x):
    u = torch.tanh(x)
    u = WrongTwice.apply(u)  # second
    return u.sum()


@case("zero")
def half_detached(x):
    a, b = x * 2, torch.cos(x)
    c = HalfDetachedProduct.apply(a, b)  # second
    return c.sum()


class Cubed(nn.Module):
    def forward(self, x):
        return DetachedCube.apply(x)  # second


@case("zero")
def in_a_module(x):
    cubed = Cubed()
    return cubed(torch.sin(x)).sum()


@case("zero")
def in_a_called_function(x):
    def inner(u):
        return SavedSlope.apply(u) + 1  # second

    return inner(x).sum() + inner(x).sum()


@case(None)
def right(x):
    u = RightCube.apply(torch.sin(x))
    return u.sum()


@case(None)
def rightly_zero(x):
    u = Triple.apply(x)
    v = Rectified.apply(u)
    return v.sum()


@case(None)
def rightly_zero_then_not(x):
    u = Triple.apply(x)
    return (Rectified.apply(u) * u).sum()


@case(None)
def of_the_framework(x):
    u = torch.tanh(x) * torch.sigmoid(x)
    v = torch.nn.functional.softplus(u) + u.square()
    return v.log_softmax(0).sum()


@case(None)
def linear(x):
    return (2 * x + 1).sum()


@case(None)
def cut_on_purpose(x):
    target = torch.sin(x).detach()
    return ((x - target) ** 2).sum()


X = torch.tensor([0.7, -0.4, 1.3], dtype=torch.float64)
