"""Gradients that are not there: never a bare None or 0, always a status with a reason."""

import numpy as np

from programs.program import Collection

program = Collection("Gradients that are not there")


@program(
    "`not_connected`: a value that no path leads from",
    (3.0, 2.0),
    {"x": (3, 2), "w": (2, 3), "unused": (15, "not_connected"), "after": (16, "not_connected"), "return": (6, 1)},
)
def not_connected(ops):
    def f(x, w):
        unused = x * 5
        after = unused + 1
        return x * w

    return f


@program("`not_connected`: an unused argument", (3.0, 2.0), {"x": (3, 6), "w": (2, "not_connected"), "u": (9, 1)})
def unused_argument(ops):
    def f(x, w):
        u = x * x
        return u

    return f


@program("a gradient of 0 is a gradient", (3.0, 2.0), {"x": (3, 0), "w": (2, 1), "u": (6, 0), "return": (2, 1)})
def zero(ops):
    def f(x, w):
        u = x * 2
        return u * 0 + w

    return f


@program(
    "`detached`: the graph was cut (`detach`, `stop_gradient`), and what follows",
    (3.0, 2.0),
    {"x": (3, 2), "w": (2, 3), "u": (6, 1), "cut": (6, "detached"), "after": (12, "detached"), "mixed": (18, 1)},
    smooth=False,
)
def detached(ops):
    def f(x, w):
        u = x * w
        cut = ops.stop_gradient(u)
        after = cut * 2
        mixed = after + u
        return mixed

    return f


@program(
    "`not_float`: integers and booleans",
    ([1.0, 3.0],),
    {"x": ([1, 3], [2, 6]), "index": (1, "not_float"), "mask": ([False, True], "not_float"), "return": (10, 1)},
)
def not_float(ops):
    def f(x):
        index = ops.cast(ops.argmax(x, 0), ops.integer)
        mask = x > 2
        return ops.sum(x * x)

    return f


@program(
    "integer arguments beside floating ones",
    ([1.0, 3.0], np.array([2, 5], "int32")),
    {"x": ([1, 3], [2, 5]), "n": ([2, 5], "not_float"), "scale": ([2, 5], "frozen"), "return": (17, 1)},
)
def integer_arguments(ops):
    def f(x, n):
        scale = ops.cast(n, ops.single)
        return ops.sum(x * scale)

    return f


@program(
    "`not_tensor`: plain numbers and None, beside floating arguments",
    (3.0, 2, None),
    {"x": (3, 2), "n": (2, "not_tensor"), "mask": (None, "not_tensor"), "flag": (True, "not_tensor"), "return": (6, 1)},
)
def not_tensor(ops):
    def f(x, n, mask):
        flag = mask is None
        return x * n * flag

    return f


@program(
    "`frozen`: computed from no differentiated argument; `wrt` says which are differentiated",
    (3.0, 2.0),
    {"x": (3, "frozen"), "w": (2, 3), "u": (9, "frozen"), "v": (6, 1), "return": (15, 1)},
    options={"wrt": "w"},
)
def frozen(ops):
    def f(x, w):
        u = x * x
        v = x * w
        return u + v

    return f
