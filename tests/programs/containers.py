"""Containers: what they hold has names by their own keys."""

import dataclasses
from collections import namedtuple

from programs.program import Collection

program = Collection("Containers")

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Out:
    loss: object
    extra: object = None


@program(
    "lists, tuples and dicts: `parts.0`, `table.k`",
    (3.0, 2.0),
    {
        "x": (3, 9),
        "w": (2, 27),
        "parts.0": (6, 4),
        "parts.1": (6, 1),
        "table.deep.0": (24, 1),
        "table.deep.1": (None, "not_tensor"),
        "table.`odd.key`": (3, 1),
        "return": (33, 1),
    },
    readings={"table.deep": "table.deep.0"},
)
def leaves(ops):
    def f(x, w):
        parts = [x * w, w * 3]
        table = {"deep": [parts[0] * w * 2, None], "odd.key": x * 1}
        return table["deep"][0] + parts[1] + table["odd.key"]

    return f


@program(
    "named tuples and dataclasses, made and returned",
    (3.0, 2.0),
    {
        "x": (3, 4),
        "w": (2, 9),
        "pair.left": (6, 2),
        "pair.right": (6, 1),
        "out.loss": (18, 1),
        "out.extra": (None, "not_tensor"),
        "return.extra": (None, "not_tensor"),
    },
    readings={"out": "out.loss", "return": "out.loss", "return.loss": "out.loss"},
    options={"of": "loss"},
)
def records(ops):
    def f(x, w):
        pair = Pair(x * 2, w * 3)
        out = Out(loss=pair.left * w + pair.right)
        return out

    return f


@program(
    "a dict, list or named tuple as an argument: each of its tensors is differentiated",
    ({"w": 3.0, "b": [1.0, 2.0]}, Pair(2.0, 5)),
    {
        "parameters.w": (3, 2),
        "parameters.b.0": (1, 1),
        "parameters.b.1": (2, 0),
        "pair.left": (2, 3),
        "pair.right": (5, "not_tensor"),
        "u": (6, 1),
        "return": (7, 1),
    },
)
def arguments(ops):
    def f(parameters, pair):
        u = parameters["w"] * pair.left
        return u + parameters["b"][0] + parameters["b"][1] * 0

    return f


@program(
    "an element set once and read elsewhere",
    (3.0, 2.0),
    {"x": (3, 4), "w": (2, 6), "cache['u']": (6, 2), "return": (12, 1)},
)
def filled(ops):
    def f(x, w):
        cache, kept = {}, []
        cache["u"] = x * w
        kept.append(cache["u"])
        return kept[0] * 2

    return f


@program(
    "several tensors returned: `return.0`",
    (3.0, 2.0),
    {"x": (3, 2), "w": (2, 3), "return.0": (6, 1), "return.1": (5, "not_connected")},
    options={"of": 0},
)
def returned_tuple(ops):
    def f(x, w):
        return x * w, x + w

    return f
