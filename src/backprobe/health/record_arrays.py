"""One record as the checks see it: the numbers of its values and gradients, in double precision, and what is known of
its scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy

from backprobe.backends.protocol import Arrays
from backprobe.record.entries import Entry, GradStatus, Record

UNKNOWN_SCALE = (
    "the loss was multiplied by a number that is not known before backward(): nothing is said of how large gradients "
    "are"
)
SEVERAL_SCALES = "backward() ran from several multiples of a loss: nothing is said of how large gradients are"
NOT_FINITE = "{} of the entries hold NaN or Inf and were left out: bp.explain(rec) says where they were born"


class RecordArrays:
    """A record, and what the checks ask of it."""

    def __init__(self, record: Record, arrays: Arrays) -> None:
        self.record, self.arrays = record, arrays
        self.entries: Sequence[Entry] = record.entries
        self.positions: Mapping[str, int] = {entry.name: at for at, entry in enumerate(record.entries)}
        self._values: dict[int, Any] = {}
        self._grads: dict[int, Any] = {}
        self.not_finite: set[int] = set()

    def value(self, at: int) -> Any:
        """The numbers of a floating value; None where they are not held, are not finite, or there are none."""
        if at not in self._values:
            entry = self.entries[at]
            is_float = entry.status not in (GradStatus.NOT_FLOAT, GradStatus.NOT_TENSOR)
            self._values[at] = self._numbers(at, entry.held_value) if is_float else None
        return self._values[at]

    def grad(self, at: int) -> Any:
        """The numbers of a gradient; None where there is none, or it is not finite."""
        if at not in self._grads:
            self._grads[at] = self._numbers(at, self.entries[at].grad_or_none)
        return self._grads[at]

    def _numbers(self, at: int, tensor: Any) -> Any:
        numbers = self.arrays.numbers(tensor) if self.arrays.is_tensor(tensor) else None
        if numbers is None or not numbers.size:
            return None
        if not numpy.isfinite(numbers).all():
            self.not_finite.add(at)
            return None
        return numbers

    def only_input(self, at: int) -> int | None:
        """The one recorded value that flows into an entry, where its shape is the same."""
        names = {edge.name for edge in self.entries[at].inputs}
        if len(names) != 1:
            return None
        source = self.positions.get(names.pop())
        return source if source is not None and self.entries[source].shape == self.entries[at].shape else None

    @cached_property
    def consumers(self) -> Mapping[int, Sequence[int]]:
        """The entries that each flows into."""
        found: dict[int, list[int]] = {}
        for at, entry in enumerate(self.entries):
            for edge in entry.inputs:
                if edge.name in self.positions:
                    found.setdefault(self.positions[edge.name], []).append(at)
        return found

    @property
    def scale(self) -> float | None:
        """By what the gradients are multiplied; None where that is not known."""
        scales = self.record.scales
        return 1.0 if not scales else scales[0] if len(scales) == 1 else None

    @property
    def counts(self) -> tuple[int, int]:
        """How many values and gradients were looked at."""
        values = sum(self.value(at) is not None for at in range(len(self.entries)))
        return values, sum(self.grad(at) is not None for at in range(len(self.entries)))

    @property
    def notes(self) -> list[str]:
        """What was not judged."""
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


MOST = 6


def listed(names: Sequence[str]) -> str:
    """Names as text, the first of them where they are many.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    return ", ".join(map(repr, names[:MOST])) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")
