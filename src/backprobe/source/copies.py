"""Reporting copies of functions that are used again: making one takes longer than many a function runs.

A copy has a cell of its own, which holds what opens its listener. It is lent to one user at a time, who puts an opener
into that; when it comes back, calls of it report to nobody.
"""

from __future__ import annotations

import sys
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CellType, FunctionType
from typing import Any

from backprobe.source.listener import CodeListener
from backprobe.source.reporting import reporting_copy
from backprobe.source.sites import Site

LATER = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR  # functions that open their listener some time after the call
MOST = 4096  # functions


class Copy:
    """One function that reports, and the cell that it looks for its opener in."""

    __slots__ = ("cell", "code", "file", "function", "kinds", "name", "operations", "original", "sites", "waiting")

    def __init__(self, original: FunctionType, operations: bool, waiting: list[Copy]) -> None:
        """``waiting`` are the copies of this function that nobody uses. Raises NoSource."""
        self.waiting = waiting
        self.kinds: dict[Any, Any] = {}  # what its users know of it, by who calls it
        self.original, self.name, self.file = original, original.__name__, original.__code__.co_filename
        self.code, self.cell, self.operations = original.__code__, CellType(_nobody), operations
        self.function, self.sites = reporting_copy(original, self.cell, operations=operations)

    @property
    def is_current(self) -> bool:
        """Is the original still what it was? Programs may give a function other code or defaults."""
        original, function = self.original, self.function
        return (
            self.code is original.__code__
            and function.__defaults__ is original.__defaults__
            and function.__kwdefaults__ is original.__kwdefaults__
        )

    def give_back(self) -> None:
        """Calls of it report to nobody, until it is lent again."""
        self.cell.cell_contents = _nobody
        self.waiting.append(self)


class Copies:
    """The copies that nobody uses, by the function that they are of."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[FunctionType, bool], list[Copy]] = {}

    def lend(self, function: FunctionType, operations: bool) -> Copy | None:
        """A copy; None of a function of which none are kept. Raises NoSource.

        Its user puts what opens a listener into its cell. With ``operations`` it reports each subexpression as well.
        """
        waiting = self.waiting.get((function, operations))
        if waiting is None:
            if len(self.waiting) > MOST or not is_lasting(function):
                return None
            waiting = self.waiting[function, operations] = []
        try:
            while not (copy := waiting.pop()).is_current:
                pass
        except IndexError:  # there is none, or another thread has taken the last one
            copy = Copy(function, operations, waiting)
        return copy


def is_lasting(function: FunctionType) -> bool:
    """Is it part of an imported module, which lives on anyway, and does it hold nothing else than its class?"""
    home = sys.modules.get(function.__module__ or "")
    return (
        getattr(home, "__dict__", None) is function.__globals__
        and "<locals>" not in function.__qualname__
        and function.__code__.co_freevars in ((), ("__class__",))
        and not function.__code__.co_flags & LATER
        and not function.__dict__
    )


class _Nobody(CodeListener):
    """Listens to a copy that is called after its user has given it back."""

    sites: tuple[Site, ...] = ()


def _nobody() -> Any:
    return _Nobody()
