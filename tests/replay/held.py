"""A program that holds state, a description of that state, and a Ctrl-C at any of the program's calls.

A description is a flat dict from names to bytes, numbers and texts that can be compared bit for bit. Objects whose
identity counts are in it as ``Same``.
"""

import dataclasses
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np


@dataclass
class Held:
    """A target with its arguments, and what describes the state that it holds.

    ``written`` are patterns of the names that a plain call changes; ``random.*`` are the random states of Python, NumPy
    and the framework. ``select`` names a value for ``sweep``. ``bad`` are arguments that give NaN or Inf. ``guarded``
    is the model that a guard is about; where it is None, the guard is about a block.
    """

    target: Callable
    args: tuple
    state: Callable[[], dict]
    written: tuple[str, ...]
    bad: tuple
    kwargs: dict = field(default_factory=dict)
    select: str = "h"
    guarded: object = None


class Ticks:
    """Programs call this where a Ctrl-C may come. It counts, and raises that or an error at the call that was chosen.

    The count stands where nothing that a program holds leads to: a run would put it back.
    """

    def start(self, at=None, error=KeyboardInterrupt):
        _counted().update(count=0, at=at, error=error, noted=None)

    @property
    def count(self):
        return _counted()["count"]

    def note(self, noted):
        """Call this at each tick that follows, with its place in the program."""
        _counted()["noted"] = noted

    def __call__(self):
        counted = _counted()
        counted["count"] += 1
        if counted["noted"] is not None:
            caller = sys._getframe(1)
            counted["noted"]((caller.f_code, caller.f_lasti))
        if counted["count"] == counted["at"]:
            raise counted["error"]


_COUNTED = {"count": 0, "at": None, "error": KeyboardInterrupt, "noted": None}


def _counted():
    return vars(sys.modules[__name__])["_COUNTED"]  # by a name that no code of a program has


tick = Ticks()


class Same:
    """An object that compares by identity. Holding it keeps its address from being used again."""

    def __init__(self, held):
        self.held = held

    def __eq__(self, other):
        return isinstance(other, Same) and self.held is other.held

    __hash__ = None

    def __repr__(self):
        return f"<{type(self.held).__name__} at {id(self.held):#x}>"


class Place:
    """A memory address: it says something beside another one of the same program only."""

    def __init__(self, address):
        self.address = address

    def __eq__(self, other):
        return isinstance(other, Place) and self.address == other.address

    __hash__ = None

    def __repr__(self):
        return f"<memory at {self.address:#x}>"


MISSING = "nothing of that name"


def changes(before, after):
    """What of a state is another one afterwards, by name."""
    names = [*before, *(name for name in after if name not in before)]
    pairs = {name: (before.get(name, MISSING), after.get(name, MISSING)) for name in names}
    return {name: new for name, (old, new) in pairs.items() if not alike(old, new)}


def alike(one, other):
    return type(one) is type(other) and one == other


def differences(found, expected):
    """The names of changes that are not those of another instance of the same program."""
    own = (Same, Place)

    def agree(name):
        one, other = found.get(name, MISSING), expected.get(name, MISSING)
        return alike(one, other) or (isinstance(one, own) and type(one) is type(other))

    return [name for name in dict.fromkeys([*found, *expected]) if not agree(name)]


def misdeclared(held, changed):
    """Why the changes of a plain call are not those that the program declares; empty if they are."""
    unwritten = [pattern for pattern in held.written if not any(fnmatchcase(name, pattern) for name in changed)]
    undeclared = [name for name in changed if not any(fnmatchcase(name, pattern) for pattern in held.written)]
    return [f"{name} does not change" for name in unwritten] + [f"{name} changes" for name in undeclared]


def python_and_numpy():
    """The random states that do not belong to a framework."""
    return {"random.python": repr(random.getstate()).encode(), "random.numpy": repr(np.random.get_state()).encode()}


def array_bytes(array):
    array = np.asarray(array)
    return f"{array.dtype} {array.shape}".encode() + b" " + array.tobytes()


def walk(name, thing, leaf, into, seen):
    """Describe what is reached from an object: containers, attributes and slots. ``leaf`` describes what is known."""
    if id(thing) in seen:
        return
    if isinstance(thing, np.random.Generator):
        into[name] = repr(thing.bit_generator.state).encode()
    elif isinstance(thing, random.Random):
        into[name] = repr(thing.getstate()).encode()
    elif isinstance(thing, np.ndarray):
        into[name], into[f"{name} is"] = array_bytes(thing), Same(thing)
    elif not leaf(name, thing, into):
        seen[id(thing)] = thing
        parts = parts_of(thing)
        if parts is not None:
            into[f"{name} is"], into[f"{name} has"] = Same(thing), ", ".join(map(str, parts))
            for key, part in parts.items():
                walk(f"{name}.{key}", part, leaf, into, seen)


def parts_of(thing):
    if isinstance(thing, dict):
        return dict(thing)
    if isinstance(thing, list | tuple):
        return dict(enumerate(thing))
    if dataclasses.is_dataclass(thing):
        return {each.name: getattr(thing, each.name) for each in dataclasses.fields(thing)}
    if slots := [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]:
        return {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    return None
