"""Passes of ``autograd.grad`` in one step of a watched training. They count only if the step runs no ``backward()``.

This is known only at the end of the step, so the statistics of such passes are kept until then. Tensors are not kept,
so a watch does not keep graphs alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

from torch import Tensor

from backprobe.backends.torch.backward_call import BackwardCall

Held = ReferenceType[Tensor] | None
Kept = dict[int, list[tuple[Any, Any]]]
"""By place: the statistics that one pass measured, each with a histogram or None."""


class GradPasses:
    """The passes of ``autograd.grad`` in the current step."""

    def __init__(self) -> None:
        self.kept: dict[int, Kept] = {}  # by the engine's number of the pass
        self.first: tuple[tuple[Held, ...], tuple[Held, ...]] | None = None  # the first call's outputs and cotangents
        self.are_of_one = True

    def begin(self, running: int, frame: FrameType) -> None:
        """Register a call of ``grad()``, which runs in this frame. A call inside another pass is ignored, because it
        belongs to that pass. Batched calls, and calls inside transforms or of backprobe, are ignored too.
        """
        call = BackwardCall.of(frame)
        if call.is_nested or call.is_ours or call.is_transformed or call.is_batched:
            return
        if self.first is None:
            self.first = _weakly(call.roots), _weakly(call.cotangents)
        else:
            self.are_of_one &= self._asks_as_first(call)
        self.kept[running] = {}

    def _asks_as_first(self, call: BackwardCall) -> bool:
        assert self.first is not None
        held, seeds = (tuple([None if one is None else one() for one in each]) for each in self.first)
        roots = tuple([root for root in held if root is not None])
        are_there = len(roots) == len(held) and [one is None for one in seeds] == [one is None for one in self.first[1]]
        return are_there and BackwardCall(roots, seeds).asks_as(call)

    def add(self, running: int, place: int, row: Any, counted: Any) -> None:
        """Record the statistics that a pass measured for a place, and the histogram if there is one."""
        if running in self.kept:
            self.kept[running].setdefault(place, []).append((row, counted))

    def of_one_output(self) -> Kept:
        """Return the statistics and histograms for each place, or nothing if the calls differentiated several outputs.

        Calls that differentiate the same output with respect to different inputs measure the same gradients at common
        places, so those of the first call are kept.
        """
        found: Kept = {}
        for kept in self.kept.values() if self.are_of_one else ():
            found = {**kept, **found}
        return found

    def clear(self) -> None:
        self.kept.clear()
        self.first, self.are_of_one = None, True


def _weakly(tensors: Sequence[Tensor | None]) -> tuple[Held, ...]:
    return tuple([None if one is None else ref(one) for one in tensors])
