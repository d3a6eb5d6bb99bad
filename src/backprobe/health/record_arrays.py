"""The values and gradients of one record as NumPy arrays in double precision, for the checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from backprobe.backends.tensors import Arrays
from backprobe.findings.phrasing import quoted
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.graph import Graph
from backprobe.record.inputs import Edge

UNKNOWN_SCALE = "the loss was multiplied by an unknown number before backward(): magnitudes were not checked"
SEVERAL_SCALES = "backward() ran on several multiples of a loss: magnitudes were not checked"
NOT_FINITE = "{} entries hold NaN or Inf and were not checked: bp.explain(rec) shows where those begin"


class RecordArrays:
    """A record with its index, its numbers, and the number that its loss was multiplied by."""

    def __init__(self, record: Record, backend: Arrays) -> None:
        self.record, self.graph, self.backend = record, Graph.of(record), backend
        self.entries: Sequence[Entry] = record.entries
        self._values: dict[int, Any] = {}
        self._grads: dict[int, Any] = {}
        self.not_finite: set[int] = set()

    def value(self, at: int) -> Any:
        """A floating value; None where it is not kept, is empty or is not finite."""
        if at not in self._values:
            entry = self.entries[at]
            is_float = entry.status not in (GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)
            self._values[at] = self._finite(at, entry.held_value) if is_float else None
        return self._values[at]

    def grad(self, at: int) -> Any:
        """A gradient; None where there is none, or it is not finite."""
        if at not in self._grads:
            self._grads[at] = self._finite(at, self.entries[at].grad_or_none)
        return self._grads[at]

    def _finite(self, at: int, tensor: Any) -> Any:
        numbers = self._numbers(tensor)
        if numbers is not None and not numpy.isfinite(numbers).all():
            self.not_finite.add(at)
            return None
        return numbers

    def partial(self, edge: Edge) -> Any:
        """The local partial of an edge; None where it was not recorded."""
        return self._numbers(edge.partial)

    def _numbers(self, tensor: Any) -> Any:
        numbers = self.backend.numbers(tensor) if self.backend.is_tensor(tensor) else None
        return numbers if numbers is not None and numbers.size else None

    def names(self, places: Sequence[int]) -> str:
        """The names of some entries as text, the first of them where they are many."""
        return quoted([self.entries[at].name for at in places], MOST)

    def only_input(self, at: int) -> int | None:
        """The one entry that flows into another, where it has the same shape."""
        if len(self.graph.inputs[at]) != 1:
            return None
        (source,) = self.graph.inputs[at]
        return source if self.entries[source].shape == self.entries[at].shape else None

    @property
    def scale(self) -> float | None:
        """The number that the loss was multiplied by; None where it is not known."""
        scales = self.record.scales
        return 1.0 if not scales else scales[0] if len(scales) == 1 else None

    @property
    def counts(self) -> tuple[int, int]:
        """How many values and gradients were checked."""
        every = range(len(self.entries))
        return sum(self.value(at) is not None for at in every), sum(self.grad(at) is not None for at in every)

    @property
    def notes(self) -> list[str]:
        """What was not checked."""
        notes = []
        if self.scale is None:
            notes.append(SEVERAL_SCALES if len(self.record.scales) > 1 else UNKNOWN_SCALE)
        if self.not_finite:
            notes.append(NOT_FINITE.format(len(self.not_finite)))
        return notes


def rms(numbers: Any) -> float:
    """The root mean square, which does not grow with the size as a norm does.

    >>> rms(numpy.array([3.0, -3.0]))
    3.0
    """
    return float(numpy.sqrt(numpy.mean(numpy.square(numpy.abs(numbers)))))


MOST = 6  # entries that one finding names
