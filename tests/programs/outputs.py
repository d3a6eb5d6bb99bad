"""What is differentiated, and towards what: `of`, `cotangent`, `wrt`."""

from programs.program import Collection

program = Collection("Outputs and arguments")


@program(
    "`of`: a path into what is returned", (3.0, 2.0),
    {"x": (3, 6), "w": (2, 9), "u": (6, 3), "return.loss": (12, "not_connected"), "return.aux.0": (18, 1)},
    readings={"return.aux.1": "x"}, options={"of": "aux.0"},
)  # fmt: skip
def of_path(ops):
    def f(x, w):
        u = x * w
        return {"loss": u * 2, "aux": [u * 3, x]}

    return f


@program(
    "`of`: a function of what is returned", (3.0, 2.0),
    {"x": (3, 10), "w": (2, 15), "u": (6, 5), "return.loss": (12, 1), "return.aux.0": (18, 1), "of()": (30, 1)},
    options={"of": lambda out: out["loss"] + out["aux"][0]},
)  # fmt: skip
def of_function(ops):
    def f(x, w):
        u = x * w
        return {"loss": u * 2, "aux": [u * 3, x]}

    return f


@program(
    "`cotangent` for an output that is not a scalar", ([1.0, 2.0], [3.0, 4.0]),
    {"x": ([1, 2], [30, 400]), "w": ([3, 4], [10, 200]), "u": ([3, 8], [10, 100])}, options={"cotangent": [10, 100]},
)  # fmt: skip
def cotangent(ops):
    def f(x, w):
        u = x * w
        return u

    return f


@program(
    "an output of one element is a scalar, whatever its shape", ([3.0],), {"x": ([3], [6]), "return": ([9], [1])},
)  # fmt: skip
def one_element(ops):
    def f(x):
        return x * x

    return f


@program(
    "if only one output is connected, it is the one", (3.0,),
    {"x": (3, 2), "return.0": (6, 1), "return.1": (3, "detached")},
)  # fmt: skip
def connected_output(ops):
    def f(x):
        return x * 2, ops.stop_gradient(x)

    return f


@program(
    "`wrt`: several arguments by name", (3.0, 2.0, 5.0),
    {"x": (3, 10), "w": (2, 15), "b": (5, "frozen"), "u": (6, 5), "return": (30, 1)}, options={"wrt": ["x", "w"]},
)  # fmt: skip
def wrt(ops):
    def f(x, w, b):
        u = x * w
        return u * b

    return f


@program(
    "an argument that is returned unchanged", (3.0,), {"x": (3, 1)}, readings={"return": "x"},
)  # fmt: skip
def identity(ops):
    def f(x):
        return x

    return f
