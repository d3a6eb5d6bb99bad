"""Selections: patterns, exclusion, operations that have no name."""

from programs.program import Collection

program = Collection("Selection")


def helper(t):
    q = t * 2
    return q


def two(ops):
    def f(x, w):
        u = x * w
        v = helper(u)
        return v + u

    return f


ALL = {"x": (3, 6), "w": (2, 9), "u": (6, 3), "v": (12, 1), "return": (18, 1)}


def only(*names):
    return {name: ALL[name] for name in names}


program("one name; the output always has its entry", (3.0, 2.0), only("u", "return"), options={"select": "u"})(two)
program(
    "`/helper:*`: a scope",
    (3.0, 2.0),
    {"/helper:t": ALL["u"], "/helper:q": ALL["v"], "return": ALL["return"]},
    options={"select": "/helper:*"},
)(two)
program("`!x`: all but one", (3.0, 2.0), only("w", "u", "v", "return"), options={"select": ["**", "!x"]})(two)
program("`re:`: a regular expression", (3.0, 2.0), only("u", "v", "return"), options={"select": "re::[uv]"})(two)


@program(
    "`*()`: operations without a name, named as the source spells them",
    (3.0, 2.0),
    {"mul()": (6, 2), "add()": (9, 2), "relu()": (9, 2), "return": (18, 1)},
    options={"select": ":*()"},
)
def operations(ops):
    def f(x, w):
        return ops.relu(x * w + x) * 2

    return f


@program(
    "`**:*()`: in every function that is called, too",
    (3.0, 2.0),
    {"mul()": (6, 6), "/tripled:mul()": (12, 2), "tripled()": (18, 2), "add()": (21, 2), "return": (42, 1)},
    options={"select": "**:*()"},
)
def operations_everywhere(ops):
    def f(x, w):
        return (tripled(x * w) + x) * 2

    return f


def tripled(t):
    return t * 2 + t


@program("`u#1`: one binding of several", (3.0, 2.0), {"u#1": (12, 3), "return": (36, 1)}, options={"select": "u#1"})
def one_binding(ops):
    def f(x, w):
        u = x * w
        u = u * 2
        return u * 3

    return f


@program(
    "values that are not selected are skipped, wherever they stand",
    (3.0, 2.0),
    {"x": (3, 16), "v": (15, 2), "return": (30, 1)},
    options={"select": ["x", "v"]},
)
def stepped_over(ops):
    def f(x, w):
        u = x * x
        s = u + x * w
        v = s
        return v * w

    return f
