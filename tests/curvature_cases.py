"""Functions with a full Hessian by ``torch.func``: what ``bp.hvp`` and ``bp.curvature`` are compared with."""

import torch
from torch import nn


def quadratic(x, matrix):
    u = matrix @ x
    return 0.5 * (x * u).sum()


def quartic(x, w):
    u = torch.tanh(x * w)
    v = u.square().sum() + (u[0] * u[1] - x[2]) ** 2
    return v * x.exp().mean()


def saddle(x):
    return x[0] ** 2 - 3 * x[1] ** 2 + x[0] * x[1] * x[2]


def image(x):
    u = x.cos() @ x.T
    return (u**2).mean() + x.sum() ** 3


def symmetric(size=6):
    torch.manual_seed(1)
    half = torch.randn(size, size, dtype=torch.float64)
    return half + half.T


def ones(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64)


FUNCTIONS = [
    (quadratic, (ones(6), symmetric()), "x"),
    (quartic, (ones(4), ones(4) + 1), "x"),
    (quartic, (ones(4), ones(4) + 1), "w"),
    (saddle, (ones(3),), "x"),
    (image, (ones(3, 2),), "x"),
]
"""The function, its arguments, and the argument that it is differentiated by twice."""


def hessian(function, args, name):
    """The whole matrix, by forward over reverse differentiation."""
    at = function.__code__.co_varnames.index(name)
    size = args[at].numel()
    return torch.func.hessian(function, argnums=at)(*args).reshape(size, size)


class Regression(nn.Module):
    """A small model with its loss, in double precision."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x, y):
        h = torch.tanh(self.inner(x))
        return (self.outer(h) - y).square().mean()


def regression():
    torch.manual_seed(0)
    model = Regression().double()
    return model, (torch.randn(7, 3, dtype=torch.float64), torch.randn(7, 2, dtype=torch.float64))


def hessian_of_parameters(model, args, names):
    """The Hessian of the loss by the named parameters together, in this order, flattened and concatenated."""
    own = {name: one.detach() for name, one in model.named_parameters()}
    sizes = [own[name].numel() for name in names]

    def loss(flat):
        parts = dict(zip(names, flat.split(sizes), strict=True))
        given = own | {name: part.reshape(own[name].shape) for name, part in parts.items()}
        return torch.func.functional_call(model, given, args)

    return torch.func.hessian(loss)(torch.cat([own[name].flatten() for name in names]))
