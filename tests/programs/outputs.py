"""The output that is differentiated, and the inputs: `of`, `cotangent`, `wrt`."""

from programs.program import Collection

program = Collection("Outputs and arguments")


@program(
    "`of`: a path into what is returned",
    (3.0, 2.0),
    {"x": (3, 6), "w": (2, 9), "u": (6, 3), "return.loss": (12, "not_connected"), "return.aux.0": (18, 1)},
    readings={"return.aux.1": "x"},
    options={"of": "aux.0"},
)
def of_path(ops):
    def f(x, w):
        u = x * w
        return {"loss": u * 2, "aux": [u * 3, x]}

    return f


@program(
    "`of`: a function of what is returned",
    (3.0, 2.0),
    {"x": (3, 10), "w": (2, 15), "u": (6, 5), "return.loss": (12, 1), "return.aux.0": (18, 1), "of()": (30, 1)},
    options={"of": lambda out: out["loss"] + out["aux"][0]},
)
def of_function(ops):
    def f(x, w):
        u = x * w
        return {"loss": u * 2, "aux": [u * 3, x]}

    return f


@program(
    "`cotangent` for an output that is not a scalar",
    ([1.0, 2.0], [3.0, 4.0]),
    {"x": ([1, 2], [30, 400]), "w": ([3, 4], [10, 200]), "u": ([3, 8], [10, 100])},
    options={"cotangent": [10, 100]},
)
def cotangent(ops):
    def f(x, w):
        u = x * w
        return u

    return f


@program("an output of one element is a scalar, whatever its shape", ([3.0],), {"x": ([3], [6]), "return": ([9], [1])})
def one_element(ops):
    def f(x):
        return x * x

    return f


@program(
    "if only one output is connected, it is the one",
    (3.0,),
    {"x": (3, 2), "return.0": (6, 1), "return.1": (3, "detached")},
)
def connected_output(ops):
    def f(x):
        return x * 2, ops.stop_gradient(x)

    return f


@program(
    "`wrt`: several arguments by name",
    (3.0, 2.0, 5.0),
    {"x": (3, 10), "w": (2, 15), "b": (5, "frozen"), "u": (6, 5), "return": (30, 1)},
    options={"wrt": ["x", "w"]},
)
def wrt(ops):
    def f(x, w, b):
        u = x * w
        return u * b

    return f


@program("an argument that is returned unchanged", (3.0,), {"x": (3, 1)}, readings={"return": "x"})
def identity(ops):
    def f(x):
        return x

    return f


@program(
    "`of`: the name of a value that is not returned",
    (3.0, 2.0),
    {"x": (3, 4), "w": (2, 6), "u": (6, 2), "v": (12, 1), "return": (144, "not_connected")},
    options={"of": "v"},
    smooth=False,
)
def of_a_local(ops):
    def f(x, w):
        u = x * w
        v = u * 2
        return v * v

    return f


@program(
    "`of`: an element of a value in a function that is called",
    ([1.0, 2.0], [3.0, 4.0]),
    {
        "x": ([1, 2], [0, 64]),
        "w": ([3, 4], [0, 32]),
        "u": ([3, 8], [0, 16]),
        "/cube:s": ([9, 64], [0, 1]),
        "c": ([27, 512], "not_connected"),
        "return": (539, "not_connected"),
        "/cube:s[-1]": (64, 1),
    },
    readings={"/cube:z": "u"},
    options={"of": "/cube:s[-1]"},
    smooth=False,
)
def of_an_element(ops):
    def cube(z):
        s = z * z
        return s * z

    def f(x, w):
        u = x * w
        c = cube(u)
        return ops.sum(c)

    return f


@program(
    "`of`: a path into what is returned comes before a name",
    (3.0,),
    {"x": (3, 5), "loss": (6, "not_connected"), "return.loss": (15, 1)},
    options={"of": "loss"},
)
def of_path_first(ops):
    def f(x):
        loss = x * 2
        return {"loss": x * 5, "first": loss}

    return f
