"""Custom functions of PyTorch whose derivative is wrong, each in its own way, in a program where the others are right.

``CASES`` holds, by what is wrong: the program, its arguments, the input to be named, and the error to be found
(relative; None where it depends on the random cotangent).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from custom import custom

CASES: dict[str, "Case"] = {}


@dataclass(frozen=True)
class Case:
    program: Any
    arguments: tuple
    input: str
    error: float | None
    looks: str


def case(what, *arguments, input, error=None, looks=""):
    def keep(program):
        CASES[what] = Case(program, arguments, input, error, looks)
        return program

    return keep


def numbers(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


Flipped = custom("Flipped", lambda x: x.cos(), lambda g, x: g * x.sin())


@case("the sign is flipped", numbers(3, 4), input="u", error=2.0, looks="the opposite sign")
def flipped(x):
    u = x * 2
    y = Flipped.apply(u)  # wrong
    return y.sum()


Halved = custom("Halved", lambda x: x**2, lambda g, x: g * x)


@case("a factor is forgotten", numbers(5), input="x", error=0.5, looks="0.5 times what it should be")
def halved(x):
    before = x.exp()
    return (Halved.apply(x) * before).sum()  # wrong


Product = custom("Product", lambda a, b: a @ b, lambda g, a, b: ((b @ g.T), a.T @ g))


@case("the gradient is transposed", numbers(3, 3), numbers(3, 3), input="x", looks="the transpose")
def transposed(x, w):
    y = Product.apply(x, w)  # wrong
    return y.tanh().sum()


Normed = custom("Normed", lambda x: x / x.norm(), lambda g, x: g / x.norm())


@case("a term is missing", numbers(6), input="x")
def term_missing(x):
    y = Normed.apply(x)  # wrong
    return (y * torch.arange(6.0)).sum()


Shifted = custom("Shifted", lambda x, bias: x + bias, lambda g, x, bias: (g, g.mean(0)))


@case(
    "a broadcast input gets the mean instead of the sum",
    numbers(8, 3),
    numbers(3),
    input="bias",
    error=0.875,
    looks="0.125 times what it should be",
)
def broadcast(x, bias):
    y = Shifted.apply(x, bias)  # wrong
    return y.square().sum()


class Stale(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.kept = x.detach().clone().mul_(1.1)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.kept.exp()


@case("what was saved is not what was used", numbers(4), input="x")
def stale(x):
    y = Stale.apply(x)  # wrong
    return y.sum()


@case("what the first call saved is used by all", numbers(4), input="x")
def cached(x):
    class Cached(Function):
        held = None

        @staticmethod
        def forward(ctx, x):
            Cached.held = x.detach().clone() if Cached.held is None else Cached.held
            return x**3

        @staticmethod
        def backward(ctx, g):
            return g * 3 * Cached.held.to(g) ** 2

    y = Cached.apply(x * 1.5)
    z = Cached.apply(x)  # wrong
    return (y + z).sum()


def off_at_one(g, x):
    gradient = g * x.cos()
    gradient.view(-1)[17 % x.numel()] *= 1.5
    return gradient


OneOff = custom("OneOff", torch.sin, off_at_one)


@case("off at one element only", numbers(5, 7), input="x", looks="[2, 3]: gradient")
def one_off(x):
    y = OneOff.apply(x)  # wrong
    return y.sum()


@case("off at one element of very many", numbers(200, 300), input="x", looks="[0, 17]: gradient")
def one_off_of_many(x):
    y = OneOff.apply(x)  # wrong
    return y.sum()


def first_output_only(g, g_scale, x):
    scale = x.abs().mean()
    through = g_scale - (g * x).sum() / scale**2
    return g / scale + (through - g_scale) * x.sign() / x.numel()


Scaled = custom("Scaled", lambda x: (x / x.abs().mean(), x.abs().mean()), first_output_only)


@case("the gradient of the second output is dropped", numbers(6), input="x", looks="only what comes through output 1")
def second_output(x):
    y, scale = Scaled.apply(x)  # wrong
    return y.sum() * scale


Swapped = custom("Swapped", lambda a, b: a * b, lambda g, a, b: (g * a, g * b))


@case(
    "gradients of two inputs are swapped", numbers(4), numbers(4).exp(), input="x", looks="gradient that w should get"
)
def swapped(x, w):
    y = Swapped.apply(x, w)  # wrong
    return y.sum()


Leaky = custom("Leaky", lambda x: torch.where(x > 0, x, 0.1 * x), lambda g, x: torch.where(x > 0, g, 0.01 * g))


@case("wrong where the input is negative", numbers(30), input="x", looks="exactly where the input is negative")
def leaky(x):
    y = Leaky.apply(x)  # wrong
    return y.sum()


Conjugated = custom("Conjugated", lambda z: z * z, lambda g, z: g * 2 * z)


@case("a conjugate is missing", numbers(4, dtype=torch.complex64), input="z")
def conjugated(z):
    y = Conjugated.apply(z)  # wrong
    return y.abs().sum()


Dropped = custom("Dropped", lambda x, weight: x * weight, lambda g, x, weight: (g * weight, None))


@case("an input gets no gradient", numbers(3), numbers(3), input="w + 1", error=1.0, looks="it is zero")
def dropped(x, w):
    y = Dropped.apply(x, w + 1)  # wrong
    return y.sum()


Rolled = custom("Rolled", lambda x: x.roll(1, 0), lambda g, x: g.roll(1, 0))


@case("elements are in the wrong places", numbers(5), input="x", looks="in the wrong order")
def rolled(x):
    y = Rolled.apply(x)  # wrong
    return y.square().sum()


class WithContext(Function):
    @staticmethod
    def forward(x, power):
        return x**power

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.power = inputs
        ctx.save_for_backward(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (ctx.power - 1) * x ** (ctx.power - 1), None


@case(
    "a wrong power rule, with setup_context",
    numbers(4).abs(),
    input="x",
    error=1 / 3,
    looks="0.666667 times what it should be",
)
def with_context(x):
    y = WithContext.apply(x, 3)  # wrong
    return y.sum()


Saturated = custom("Saturated", torch.sigmoid, lambda g, x: g * x.sigmoid() * (1 - x.sigmoid()) * (1 + 1e-3))


@case("off by a thousandth", numbers(9), input="x", error=1e-3, looks="1.001 times what it should be")
def thousandth(x):
    y = Saturated.apply(x)  # wrong
    return y.sum()


Ahead = custom("Ahead", lambda x: x.cumsum(0), lambda g, x: g.cumsum(0))


@case("a scan that runs the same way back", numbers(5), input="x")
def ahead(x):
    y = Ahead.apply(x)  # wrong
    return y.square().sum()


Invented = custom("Invented", lambda x: x.round(), lambda g, x: g)


@case(
    "a gradient where nothing moves",
    numbers(4),
    input="x",
    error=float("inf"),
    looks="the outputs do not change with this input",
)
def invented(x):
    y = Invented.apply(x)  # wrong
    return (y * x).sum()


Refusing = custom("Refusing", lambda x: x * 2, lambda g, x: (g * 2, g))


@case(
    "its backward pass raises", numbers(4), input="", error=float("inf"), looks="its backward pass raises RuntimeError"
)
def refusing(x):
    y = Refusing.apply(x)  # wrong
    return y.sum()


def last_use_only(g, x, matrix, ids):
    of_matrix = torch.zeros_like(matrix)
    of_matrix[ids] = x.T @ g
    return g @ matrix[ids].T, of_matrix, None


Clipped = custom("Clipped", lambda x, matrix, ids: x @ matrix[ids], last_use_only)


@case("of what is used twice only the last use counts", numbers(4, 3), numbers(3, 2), input="table")
def used_twice(x, table):
    y = Clipped.apply(x, table, torch.tensor([0, 2, 2]))  # wrong
    return y.sum()
