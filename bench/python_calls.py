"""The count of Python calls in a step: a number that is the same on every machine, in every run.

What is counted are the events that ``sys.setprofile`` reports in the thread of the step. ``functions`` are the ``call``
events: one for each time the body of a function, method, lambda, comprehension (before Python 3.12), generator (each
time it goes on) or class begins to run, in any library. ``builtins`` are the ``c_call`` events: calls of functions and
methods written in C, such as ``len``, ``list.append`` and ``torch.matmul``, but not of types (``tuple(x)``) and
operators. Python hooks that PyTorch's engine calls are in it: on the CPU, backward runs in the thread that called it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Calls(NamedTuple):
    """Calls of Python functions, and of functions written in C."""

    functions: int
    builtins: int

    def beyond(self, bare: Calls) -> Calls:
        """The calls that a step makes more than a bare one."""
        return Calls(self.functions - bare.functions, self.builtins - bare.builtins)

    def __str__(self) -> str:
        return f"{self.functions:,} ({self.functions + self.builtins:,} with builtins)"


@contextmanager
def without_collections() -> Iterator[None]:
    """No garbage is collected within this context: what that calls of finalizers would be counted."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def python_calls(step: Callable[[], Any], warming: int = 3) -> Calls:
    """The calls of a step that has run a few times before, so that what is made once is made."""
    for _ in range(warming):
        step()
    functions = builtins = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal functions, builtins
        functions += event == "call"
        builtins += event == "c_call"

    with without_collections():
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            step()
        finally:
            sys.setprofile(before)
    return Calls(functions, builtins - 1)  # the last one is of setprofile
