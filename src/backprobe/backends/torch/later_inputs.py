"""The inputs of captures, computed on demand, because many recordings are read only for their gradients.

Until then the nodes of the graph are held, although backward has freed what they saved. A thread holds the nodes of at
most one recording: the inputs are computed at the latest when the thread creates the next such object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import local
from typing import Any, overload
from weakref import ReferenceType, ref

Inputs = tuple[int, ...]


class LaterInputs(Sequence[Inputs]):
    """The inputs of some captures, by position."""

    def __init__(self, count: int, find: Callable[[], list[Inputs]]) -> None:
        self.length = count
        self.find: Callable[[], list[Inputs]] | None = find
        self.found: list[Inputs] = []
        before = None if LAST.waiting is None else LAST.waiting()
        if before is not None:
            before.settle()
        LAST.waiting = ref(self)

    def settle(self) -> list[Inputs]:
        """Compute the inputs, and release the graph."""
        if self.find is not None:
            self.found, self.find = self.find(), None
        return self.found

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, at: int) -> Inputs: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Inputs]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return self.settle()[at]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self.settle(),)


class _Last(local):
    # The inputs that the last block of a thread has not computed yet.
    waiting: ReferenceType[LaterInputs] | None = None


LAST = _Last()
