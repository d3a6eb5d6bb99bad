"""Dtypes: every gradient has the dtype of its value."""

import numpy as np

from programs.program import Collection
from torch_framework import TOLERANCES

program = Collection("Dtypes")


def product(ops):
    def f(x, w):
        u = x * w
        return u * u

    return f


for dtype in ("float16", "float32", "float64"):
    program(
        f"`{dtype}`",
        (np.array(3, dtype), np.array(2, dtype)),
        {"x": (3, 24), "w": (2, 36), "u": (6, 12), "return": (36, 1)},
        tolerance=TOLERANCES[dtype],
    )(product)


@program(
    "`bfloat16`, and dtypes changed on the way",
    ([1.0, 3.0],),
    {
        "x": ([1, 3], [4, 12]),
        "low": ([1, 3], [4, 12]),
        "h": ([2, 6], [2, 6]),
        "half": ([2, 6], [1, 3]),
        "return": (20, 1),
    },
    tolerance=TOLERANCES["bfloat16"],
)
def mixed(ops):
    def f(x):
        low = ops.cast(x, ops.brain)
        h = low * 2
        half = ops.cast(h, ops.half)
        return ops.sum(ops.cast(half, ops.single) * ops.cast(h, ops.single)) / 2

    return f


@program(
    "complex values, in PyTorch's convention: the conjugate of the derivative",
    (np.array([1 + 1j, 2 - 1j], "complex64"),),
    {
        "z": ([1 + 1j, 2 - 1j], [10 + 10j, 20 - 10j]),
        "u": ([-1 + 3j, 4 + 3j], [-2 + 6j, 8 + 6j]),
        "size": ([10, 25], [1, 1]),
        "return": (35, 1),
    },
    smooth=False,
)
def complex_values(ops):
    def f(z):
        u = z * (1 + 2j)
        size = ops.real(u * ops.conj(u))
        return ops.sum(size)

    return f


@program(
    "a holomorphic function with a cotangent, `complex128`",
    (np.array(1 + 2j),),
    {"z": (1 + 2j, 2 - 4j), "return": (-3 + 4j, 1)},
    options={"cotangent": 1.0},
    smooth=False,
)
def holomorphic(ops):
    def f(z):
        return z * z

    return f


@program(
    "the real part of a complex product, with respect to a real and a complex argument",
    (np.array([1.0, 2.0], "float32"), np.array([1 + 1j, 2 - 1j], "complex64")),
    {
        "x": ([1, 2], [0, 3]),
        "z": ([1 + 1j, 2 - 1j], [2 - 2j, 8 + 4j]),
        "w": ([2j, 3 - 4j], [1, 2]),
        "r": ([0, 3], [1, 2]),
        "return": (6, 1),
    },
    smooth=False,
)
def real_of_complex(ops):
    def f(x, z):
        w = z * z
        r = ops.real(w)
        return ops.sum(r * x)

    return f
