"""The journalling copies of functions. The journals of one program use them one after the other.

A function is known by its copy from one call of the model to the next. Between calls, the copies report to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from types import FunctionType
from typing import Any, NamedTuple

from backprobe.errors import NoSource
from backprobe.source.copies import Copy, are_current, nobody

Known = tuple[Any, tuple[Any, ...], Any]
"""A called object, the journal's items for the call, and the object's effect or its copy."""

FORWARD = attrgetter("forward")


class Forwards(NamedTuple):
    """The forwards of a program's modules: their paths and functions, the copies, and which have no decorator."""

    paths: list[str]
    functions: list[Any]
    instead: list[Any]
    are_plain: list[bool]


class LentCopies:
    """The copies that one journal uses now, or the next one will use."""

    def __init__(self) -> None:
        self.copies: dict[tuple[FunctionType, bool], Copy] = {}  # by function, and whether it is a module's forward
        self.known: dict[int, Known] = {}  # the followed functions that are called by name, by identity
        self.forwards: Forwards | None = None
        self.journal: Any = None  # the journal that uses the copies

    @property
    def are_current(self) -> bool:
        """Are the originals of all copies unchanged?"""
        return are_current([*self.copies.values()])

    def copy(self, function: FunctionType, is_forward: bool) -> Copy | None:
        """Return the journalling copy of a function; None if it has no source, or if no copies are kept of it."""
        copy = self.copies.get((function, is_forward))
        if copy is None:
            trace = self.journal.trace
            try:
                copy = trace.plan.copies.lend(function, trace.operations, journals=True)
            except NoSource:
                return None
            if copy is not None:
                self.copies[function, is_forward] = copy
                copy.cell.cell_contents = partial(self._open_forward if is_forward else self._open, copy)
        return copy

    def _open_forward(self, copy: Copy, module: Any) -> Any:
        journal = self.journal
        if journal is None:
            return nobody()
        return journal.entered(copy.kinds[journal.reading.paths[module]], module, module)

    def _open(self, copy: Copy, _: Any) -> Any:
        journal = self.journal
        if journal is None:
            return nobody()
        caller = journal.caller()
        kind = copy.kinds.get(caller)
        if kind is None:
            kind = copy.kinds[caller] = journal.kind(caller, copy.name, copy.file, copy.sites)
        return journal.entered(kind, None, copy)

    def know_forwards(self, asked: Mapping[Any, str]) -> None:
        """Remember the forwards of these modules for the next call, if each of them has a copy now."""
        functions = [*map(FORWARD, map(type, asked))]
        copies = [copy for function in functions if (copy := self.copies.get((function, True))) is not None]
        if len(copies) == len(functions) and not any(
            path not in copy.kinds or "forward" in vars(module)
            for (module, path), copy in zip(asked.items(), copies, strict=True)
        ):
            are_plain = [copy.function is copy.inner for copy in copies]
            self.forwards = Forwards([*asked.values()], functions, [copy.function for copy in copies], are_plain)

    def knows(self, asked: Mapping[Any, str]) -> bool:
        """Are the forwards of these modules those of the last call?"""
        known = self.forwards
        return (
            known is not None
            and [*asked.values()] == known.paths
            and [*map(FORWARD, map(type, asked))] == known.functions
        )

    def give_back(self) -> None:
        """Release all copies."""
        for copy in self.copies.values():
            copy.give_back()
