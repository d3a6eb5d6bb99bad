"""The passes of ``autograd.grad`` in one step of a watched training: they count where the step runs no ``backward()``.

Whether it does is known when the step is over, so the statistics of what such a pass brings are kept until then. The
tensors are not: a graph lives no longer than without a watch.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

from torch import Tensor

from backprobe.backends.torch.backward_call import BackwardCall

Held = ReferenceType[Tensor] | None
Kept = dict[int, list[Any]]
"""Statistics by place, of one pass."""


class GradPasses:
    """Those of the step that runs."""

    def __init__(self) -> None:
        self.rows: dict[int, Kept] = {}  # by the engine's number of the pass
        self.counts: dict[int, Kept] = {}
        self.first: tuple[tuple[Held, ...], tuple[Held, ...]] | None = None  # what the first call began at
        self.are_of_one = True

    def begin(self, running: int, frame: FrameType) -> None:
        """A call of ``grad()`` runs in this frame. One within another pass is a part of that."""
        call = BackwardCall.of(frame)
        if call.is_nested or call.is_ours or call.is_transformed or call.is_batched:
            return
        if self.first is None:
            self.first = _weakly(call.roots), _weakly(call.cotangents)
        else:
            self.are_of_one &= self._asks_as_first(call)
        self.rows[running], self.counts[running] = {}, {}

    def _asks_as_first(self, call: BackwardCall) -> bool:
        assert self.first is not None
        held, seeds = (tuple([None if one is None else one() for one in each]) for each in self.first)
        roots = tuple([root for root in held if root is not None])
        are_there = len(roots) == len(held) and [*map(_is_none, seeds)] == [*map(_is_none, self.first[1])]
        return are_there and BackwardCall(roots, seeds).asks_as(call)

    def add(self, running: int, place: int, row: Any, counted: Any) -> None:
        """What a pass brought to a place, and its magnitudes where they are counted."""
        if running in self.rows:
            self.rows[running].setdefault(place, []).append(row)
            if counted is not None:
                self.counts[running].setdefault(place, []).append(counted)

    def of_one_output(self) -> tuple[Kept, Kept]:
        """What came to each place, if all calls were of one output.

        Those that ask the same output for other inputs bring the same to what they have in common: the first stands.
        """
        return (_first(self.rows), _first(self.counts)) if self.are_of_one else ({}, {})

    def clear(self) -> None:
        self.rows.clear()
        self.counts.clear()
        self.first, self.are_of_one = None, True


def _is_none(one: object) -> bool:
    return one is None


def _weakly(tensors: Sequence[Tensor | None]) -> tuple[Held, ...]:
    return tuple([None if one is None else ref(one) for one in tensors])


def _first(passes: dict[int, Kept]) -> Kept:
    found: Kept = {}
    for kept in passes.values():
        found = {**kept, **found}
    return found
