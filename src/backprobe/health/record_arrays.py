"""The values and gradients of one record as NumPy arrays in double precision, for the checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from backprobe.backends.tensors import Arrays
from backprobe.findings.phrasing import quoted
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.graph import Graph

UNKNOWN_SCALE = "the loss was multiplied by an unknown number before backward(): magnitudes were not checked"
SEVERAL_SCALES = "backward() ran on several multiples of a loss: magnitudes were not checked"
UNSEEN = (
    "the numbers of at least {} of {} parameters were not checked: they have no entry, as those of a library's layers; "
    "with bp.probe(model, '**') as rec: around the step has them"
)
DIFFERENTIATED = (GradStatus.OK, GradStatus.NOT_CONNECTED, GradStatus.OPAQUE)
NOT_FINITE = "{} entries hold NaN or Inf and were not checked: bp.explain(rec) shows where those begin"


class RecordArrays:
    """A record with its graph, its numbers, and the factor by which its loss was scaled.

    ``values`` are the floating-point values and ``grads`` the gradients, by position. An item is None if the array does
    not exist, was not kept, is empty, or is not finite.
    """

    def __init__(self, record: Record, backend: Arrays) -> None:
        self.record, self.graph, self.backend = record, Graph.of(record), backend
        self.entries: Sequence[Entry] = record.entries
        self.not_finite: set[int] = set()
        self.remarks: list[str] = []  # notes on observations that are not problems
        self.values = [
            None if entry.status in (GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR) else self._finite(at, entry.held)
            for at, entry in enumerate(self.entries)
        ]
        self.grads = [self._finite(at, entry.grad_or_none) for at, entry in enumerate(self.entries)]

    def _finite(self, at: int, tensor: Any) -> Any:
        numbers = self.numbers(tensor)
        if numbers is not None and not numpy.isfinite(numbers).all():
            self.not_finite.add(at)
            return None
        return numbers

    def numbers(self, tensor: Any) -> Any:
        numbers = self.backend.numbers(tensor) if self.backend.is_tensor(tensor) else None
        return numbers if numbers is not None and numbers.size else None

    def names(self, places: Sequence[int]) -> str:
        """The names of some entries as text; if there are many, only the first."""
        return quoted([self.entries[at].name for at in places], MOST)

    def only_input(self, at: int) -> int | None:
        """The only input of an entry, if it has a single input and that has the same shape."""
        if len(self.graph.inputs[at]) != 1:
            return None
        (source,) = self.graph.inputs[at]
        return source if self.entries[source].shape == self.entries[at].shape else None

    def has_gradient(self, at: int) -> bool:
        """Is there a gradient that is not zero everywhere?"""
        return self.grads[at] is not None and bool(self.grads[at].any())

    @property
    def scale(self) -> float | None:
        """The factor by which the loss was scaled; None if it is not known."""
        scales = self.record.scales
        return 1.0 if not scales else scales[0] if len(scales) == 1 else None

    def _may_be_leaf(self, at: int) -> bool:
        # Is the entry a leaf? Where the framework has none, may it be a Variable or an argument?
        entry = self.entries[at]
        if entry.is_leaf is not None:
            return entry.is_leaf
        return entry.status in DIFFERENTIATED and not self.graph.inputs[at]

    @property
    def unchecked(self) -> list[str]:
        """Return notes on what was not checked."""
        notes = []
        if self.scale is None:
            notes.append(SEVERAL_SCALES if len(self.record.scales) > 1 else UNKNOWN_SCALE)
        if self.not_finite:
            notes.append(NOT_FINITE.format(len(self.not_finite)))
        training = self.record.training
        seen = sum(map(self._may_be_leaf, range(len(self.entries))))  # counts parameters, and perhaps other values
        unseen = 0 if training is None else training.count - seen
        if training is not None and unseen > 0:
            notes.append(UNSEEN.format(unseen, training.count))
        return notes


def rms(numbers: Any) -> float:
    """The root mean square. Unlike a norm, it does not grow with the number of elements.

    >>> rms(numpy.array([3.0, -3.0]))
    3.0
    """
    return float(numpy.sqrt(numpy.mean(numpy.square(numpy.abs(numbers)))))


MOST = 6  # number of entries that one finding names
