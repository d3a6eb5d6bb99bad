"""The functions that a check skips as asked, because their derivative is intended to be another."""

from __future__ import annotations

from collections.abc import Sequence
from types import BuiltinMethodType, MethodType
from typing import Any

from backprobe.errors import BadOption
from backprobe.findings.phrasing import plural
from backprobe.probe.request import name_of
from backprobe.record.reasons import Reason


class Skips:
    """The functions to skip, and how often each was called.

    Each is the function as the program calls it, or a class that it belongs to, as an ``autograd.Function``.
    """

    def __init__(self, functions: Sequence[Any]) -> None:
        self.functions = tuple(functions)
        self.calls = [0] * len(self.functions)

    def takes(self, function: Any) -> bool:
        """Is this function about to be called one of them?"""
        for at, one in enumerate(self.functions):
            if _is(function, one):
                self.calls[at] += 1
                return True
        return False

    def remarks(self) -> dict[tuple[str, Reason], int]:
        """A remark for each function: its name, and how often it was called."""
        pairs = zip(self.functions, self.calls, strict=True)
        return {(name_of(one), Reason("skipped", {"calls": plural(calls, "call")})): 1 for one, calls in pairs}

    def refuse_unused(self, target: str) -> None:
        """Raise BadOption where one of them was never called."""
        unused = [name_of(one) for one, calls in zip(self.functions, self.calls, strict=True) if not calls]
        if unused:
            raise BadOption(
                f"{', '.join(unused)} in skip is never called", asked=f"bp.check({target}, skip=...)",
                found="no call of it in the program",
                why="a misspelled name in skip would otherwise go unnoticed",
                next="the function as the program calls it, or the class of an autograd.Function",
            )  # fmt: skip


METHODS = (MethodType, BuiltinMethodType)


def _is(function: Any, one: Any) -> bool:
    if isinstance(function, METHODS):  # each look at a method makes another object
        return function.__self__ is one or (isinstance(one, METHODS) and function == one)
    return function is one or type(function) is one
