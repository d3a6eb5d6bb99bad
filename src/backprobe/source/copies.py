"""Instrumented copies of functions. They are reused, because making a copy takes longer than running most functions.

Each copy has a cell for the function that opens its listener. ``lend`` gives a copy to one user at a time, who sets
this cell. After the user has given the copy back, calls of the copy are not reported.
"""

from __future__ import annotations

import sys
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CellType, FunctionType
from typing import Any

from backprobe.source.listener import CodeListener
from backprobe.source.reporting import reporting_copy
from backprobe.source.sites import Site
from backprobe.source.wrappers import around

LATER = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR  # functions that start to run some time after the call
MOST = 4096  # the most functions that have copies


class Copy:
    """The instrumented copy of one function, with its decorators, and the cell that contains the function which opens a
    listener.
    """

    __slots__ = ("around", "cell", "code", "file", "function", "inner", "kinds", "name", "plain", "sites", "waiting")

    def __init__(self, original: FunctionType, operations: bool, waiting: list[Copy]) -> None:
        """``waiting`` is the list of unused copies of this function, to which the copy is added later. Raises
        NoSource.
        """
        self.waiting = waiting
        self.kinds: dict[Any, Any] = {}  # facts that users of the copy store, by caller
        *decorators, plain = undecorated(original)
        self.plain, self.name, self.file, self.code = plain, plain.__name__, plain.__code__.co_filename, plain.__code__
        self.around = [held for one in decorators for held in _held(one)]
        self.cell = CellType(_nobody)
        self.inner, self.sites = reporting_copy(plain, self.cell, operations=operations)
        self.function = around(original, lambda _: self.inner) if decorators else self.inner

    @property
    def is_current(self) -> bool:
        """Is the original unchanged? A program may give a function other code or defaults."""
        plain, inner = self.plain, self.inner
        return (
            self.code is plain.__code__
            and inner.__defaults__ is plain.__defaults__
            and inner.__kwdefaults__ is plain.__kwdefaults__
            and not (self.around and any(cell.cell_contents is not held for cell, held in self.around))
        )

    def give_back(self) -> None:
        """Give the copy back. Calls of it are not reported until another user gets it."""
        self.cell.cell_contents = _nobody
        self.waiting.append(self)


class Copies:
    """The copies that are not in use, by the original function."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[FunctionType, bool], list[Copy]] = {}

    def lend(self, function: FunctionType, operations: bool) -> Copy | None:
        """Return a copy of the function, with its decorators; None if this function cannot have stored copies, or if
        too many functions have them already. Raises NoSource.

        The caller puts the function that opens a listener into the copy's cell. With ``operations``, operations without
        a name are also reported.
        """
        waiting = self.waiting.get((function, operations))
        if waiting is None:
            if len(self.waiting) > MOST or not is_lasting(function):
                return None
            waiting = self.waiting[function, operations] = []
        try:
            while not (copy := waiting.pop()).is_current:
                pass
        except IndexError:  # no copy is left, or another thread has taken the last one
            copy = Copy(function, operations, waiting)
        return copy


def undecorated(function: FunctionType) -> list[FunctionType]:
    """Return the function and the functions that its decorators wrap. The plain function is the last."""
    found = [function]
    while type(inner := found[-1].__dict__.get("__wrapped__")) is FunctionType and inner not in found:
        found.append(inner)
    return found


def _held(decorator: FunctionType) -> list[tuple[CellType, FunctionType]]:
    # Return the functions in the closure of a decorator's wrapper, with their cells. One of them is usually the wrapped
    # function.
    return [
        (cell, cell.cell_contents)
        for cell in decorator.__closure__ or ()
        if _is_filled(cell) and type(cell.cell_contents) is FunctionType
    ]


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # it raises where there are none
    except ValueError:
        return False
    return True


def is_lasting(function: FunctionType) -> bool:
    """Can copies of the function be stored? It must belong to an imported module, hold no reference to anything but its
    class, and be no generator or coroutine.

    A stored copy of such a function keeps nothing alive that would otherwise be freed. Decorators are allowed if they
    add no attributes and have no defaults, and if the module holds the decorated function.
    """
    *decorators, plain = undecorated(function)
    home = sys.modules.get(plain.__module__ or "")
    return (
        getattr(home, "__dict__", None) is plain.__globals__
        and "<locals>" not in plain.__qualname__
        and plain.__code__.co_freevars in ((), ("__class__",))
        and not plain.__dict__
        and not any(one.__code__.co_flags & LATER for one in (*decorators, plain))
        and not any(len(one.__dict__) > 1 or one.__defaults__ or one.__kwdefaults__ for one in decorators)
        and (not decorators or _found(home, function.__qualname__) is function)
    )


def _found(home: Any, qualified: str) -> Any:
    # Return the object at a qualified name in a module, using only dictionaries; None if there is none.
    for name in qualified.split("."):
        home = getattr(home, "__dict__", {}).get(name)
    return home


class _Nobody(CodeListener):
    # Receives the reports of a copy that is called after its user has given it back. They are ignored.
    sites: tuple[Site, ...] = ()


def _nobody(*_: Any) -> Any:
    return _Nobody()
