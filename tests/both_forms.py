"""One program as the lines of a function and as those of a block, what its lines call, and whether both agree."""

import importlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Pair:
    first: Any
    second: Any


class Cache:
    def __init__(self):
        self.last = None
        self.parts = [None, None]


@contextmanager
def held(value):
    yield value * 2


def scaled(value, by=2.0, *more, plus=None, **others):
    result = value * by
    for other in more:
        result = result + other
    return result if plus is None else result + plus


def halves(value):
    for part in (value[0], value[1]):
        half = part / 2
        yield half


def both_forms(folder, caller, program, arguments, backward=""):
    """A module with ``function`` and ``block``, which have these lines and what is in the module ``caller``."""
    lines = program.strip().splitlines()
    file = folder / f"forms_{abs(hash((program, backward)))}.py"
    file.write_text(
        f"import backprobe as bp\nfrom both_forms import *\nfrom {caller} import *\n\n"
        f"def function({arguments}):\n" + "".join(f"    {line}\n" for line in lines) + "    return loss\n\n"
        f"def block({arguments}):\n    with bp.probe() as rec:\n"
        + "".join(f"        {line}\n" for line in lines)
        + f"{backward}    return rec\n"
    )
    return importlib.import_module(file.stem)


def same(a, b):
    """The same kind of value, bit by bit; what is no tensor by its text."""
    if not (hasattr(a, "numpy") and hasattr(b, "numpy")):
        return repr(a) == repr(b)
    a, b = (value.detach().numpy() if hasattr(value, "detach") else value.numpy() for value in (a, b))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def agree(function, block):
    """Do the recordings of both forms say the same of every name?"""
    assert list(function) == list(block)
    assert set(function.record.names) - set(block.record.names) == {":return#0"}  # a block returns nothing
    assert set(block.record.names) < set(function.record.names)
    for name, expected in function.items():
        found = block[name]
        assert (found.status, found.reason, found.op) == (expected.status, expected.reason, expected.op), name
        assert [*found.aliases] == [alias for alias in expected.aliases if alias != "return"], name
        assert same(found.value, expected.value), name
        assert same(found.grad_or_none, expected.grad_or_none), name
        assert found.inputs == expected.inputs, name
        if found.source is not None:  # else it was there before the block
            assert (found.source.text, found.source.expression) == (expected.source.text, expected.source.expression)
    assert block.backward_order() == function.backward_order()
    assert [entry.name for entry in block.outputs] == ["loss"]
