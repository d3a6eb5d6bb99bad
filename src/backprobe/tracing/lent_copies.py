"""The journalling copies of functions. The journals of one program use them one after the other.

A function is known by its copy from one call of the model to the next. Between calls, the copies report to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from operator import attrgetter
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from backprobe.errors import NoSource
from backprobe.source.copies import Copies, Copy, are_current, nobody

Known = tuple[Any, tuple[Any, ...], Any]
"""A called object, the journal's items for the call, and the object's effect, its copy, or ``OF_MODULE``."""

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
        self.open_forward: Callable[..., Any] = nobody
        self.open: Callable[..., Any] = nobody

    @property
    def are_current(self) -> bool:
        """Are the originals of all copies unchanged?"""
        return are_current([*self.copies.values()])

    def lend(self, open_forward: Callable[..., Any], open_function: Callable[..., Any]) -> None:
        """From now on, copies of forwards and of functions call these with the copy and their first argument."""
        self.open_forward, self.open = open_forward, open_function
        for (_, is_forward), copy in self.copies.items():
            copy.cell.cell_contents = partial(open_forward if is_forward else open_function, copy)

    def copy(self, function: FunctionType, is_forward: bool, copies: Copies, operations: bool) -> Copy | None:
        """The copy of a function. None if the function has no source, or no copies are kept of it."""
        copy = self.copies.get((function, is_forward))
        if copy is None:
            try:
                copy = copies.lend(function, operations, journals=True)
            except NoSource:
                return None
            if copy is not None:
                self.copies[function, is_forward] = copy
                copy.cell.cell_contents = partial(self.open_forward if is_forward else self.open, copy)
        return copy

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

    def forwards_of(self, asked: Mapping[Any, str]) -> tuple[list[tuple[Any, Any]], list[Any]] | None:
        """The copies for the forwards of modules, as patches, and the modules whose forwards have no decorator.

        None if they are not the forwards of the last call.
        """
        modules, known = [*asked], self.forwards
        if known is None or [*asked.values()] != known.paths or [*map(FORWARD, map(type, modules))] != known.functions:
            return None
        methods = map(MethodType, known.instead, modules)
        return [*zip(modules, methods, strict=True)], [*compress(modules, known.are_plain)]

    def rest(self) -> None:
        """The copies report to nobody until they are lent again."""
        self.open_forward = self.open = nobody
        for copy in self.copies.values():
            copy.cell.cell_contents = nobody

    def give_back(self) -> None:
        """Release all copies."""
        for copy in self.copies.values():
            copy.give_back()


def known_calls(
    modules: Sequence[Any], said: Mapping[str, Any], paths: Mapping[Any, str], how: Any
) -> dict[int, Known]:
    """What is known of calls of these modules, by identity; only of those that were called before."""
    found = zip(modules, map(said.get, map(paths.__getitem__, modules)), strict=True)
    return {id(module): (module, items, how) for module, items in found if items is not None}
