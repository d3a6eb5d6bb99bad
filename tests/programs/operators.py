"""Operators of the frameworks, on a few elements: values and gradients are what NumPy says."""

import math

from programs.program import Collection

program = Collection("Operators")

X, W = [1.0, 2.0], [3.0, -1.0]
A = [[1.0, 2.0], [3.0, 4.0]]


@program(
    "matrix products, sums and means",
    (A, X),
    {
        "a": (A, [[5, 10], [11, 22]]),
        "x": (X, [38, 54]),
        "h#0": ([[5], [11]], [[5], [11]]),
        "h#1": ([5, 11], [5, 11]),
        "s": (16, "not_connected"),
        "m": (8, 0),
        "return": (73, 1),
    },
)
def linear(ops):
    def f(a, x):
        h = ops.matmul(a, ops.reshape(x, (2, 1)))
        h = ops.reshape(h, (2,))
        s = ops.sum(h)
        m = ops.mean(h)
        return ops.sum(h * h) / 2 + m * 0

    return f


@program(
    "broadcasting",
    (A, X),
    {
        "a": (A, [[4, 20], [8, 36]]),
        "x": (X, [28, 92]),
        "u": ([[1, 4], [3, 8]], [[4, 10], [8, 18]]),
        "v": ([[2, 5], [4, 9]], [[4, 10], [8, 18]]),
        "return": (126, 1),
    },
)
def broadcast(ops):
    def f(a, x):
        u = a * x
        v = u + 1
        return ops.sum(v * v)

    return f


@program(
    "elements and slices",
    (A,),
    {"a": (A, [[0, 2], [3, 1]]), "row": ([3, 4], [3, 1]), "corner": (2, 2), "part": ([3], [3]), "return": (17, 1)},
)
def indexing(ops):
    def f(a):
        row = a[1]
        corner = a[0, 1]
        part = row[:1]
        return corner * 2 + ops.sum(part) * 3 + row[1]

    return f


@program(
    "stack, concatenate and reshape",
    (X, W),
    {
        "x": (X, [4, 8]),
        "w": (W, [12, -4]),
        "s": ([X, W], [[4, 8], [12, -4]]),
        "c": ([X, W, X, W], [[2, 4], [6, -2], [2, 4], [6, -2]]),
        "r": ([*X, *W, *X, *W], [2, 4, 6, -2, 2, 4, 6, -2]),
        "return": (30, 1),
    },
)
def joined(ops):
    def f(x, w):
        s = ops.stack([x, w], 0)
        c = ops.concat([s, s], 0)
        r = ops.reshape(c, (8,))
        return ops.sum(r * r)

    return f


@program("`where`", (X, W), {"x": (X, [6, 2]), "w": (W, [2, 0]), "chosen": ([3, 2], [2, 2]), "return": (10, 1)})
def where(ops):
    def f(x, w):
        chosen = ops.where(w > 0, x * w, x)
        return ops.sum(chosen * 2)

    return f


SIN, COS = math.sin(0.5), math.cos(0.5)
TANH = math.tanh(math.exp(SIN))


@program(
    "sin, cos, exp, tanh, sqrt, relu, abs",
    (0.5,),
    {
        "x": (0.5, -(3 - TANH**0.5) * SIN - COS**2 * (1 - TANH**2) * math.exp(SIN) / (2 * TANH**0.5)),
        "a": (SIN, -COS * (1 - TANH**2) * math.exp(SIN) / (2 * TANH**0.5)),
        "b": (math.exp(SIN), -COS * (1 - TANH**2) / (2 * TANH**0.5)),
        "c": (TANH, -COS / (2 * TANH**0.5)),
        "d": (TANH**0.5, -COS),
        "e": (3 - TANH**0.5, COS),
        "return": ((3 - TANH**0.5) * COS, 1),
    },
)
def functions(ops):
    def f(x):
        a = ops.sin(x)
        b = ops.exp(a)
        c = ops.tanh(b)
        d = ops.sqrt(c)
        e = ops.relu(d - 2) + ops.abs(d - 3)
        return e * ops.cos(x)

    return f


@program(
    "powers, quotients, negation, reflected operators",
    (2.0, 4.0),
    {"x": (2, 15 + 4 * math.log(2)), "w": (4, -1.5), "a": (1.5, -4), "b": (-4, 1.5), "c": (1, 6), "return": (-2, 1)},
)
def arithmetic(ops):
    def f(x, w):
        a = 3 / x
        b = -w
        c = (1 - x) ** 2
        return a * b / c + 2**x

    return f
