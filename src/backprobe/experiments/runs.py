"""Runs of one program under experiments: a limit on their number, and a comparison of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from time import monotonic
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.errors import BackprobeError
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.limits import Limit
from backprobe.tracing.bridging import NamedBridges

MOST_RUNS = 24  # experiments use at most this many of the allowed runs; the others are left for trying remedies
SAME = 1e-5
"""The tolerance, relative to the largest number. A sum in another order differs by less, a moved value by more."""

MOVES: Mapping[str, Callable[[Any], Any]] = {
    "a little": lambda value: value * (1 + 2**-8) + 2**-8,
    "turned round": lambda value: -value,
    "up": lambda value: value + 2.9,
    "down": lambda value: value * 0.3 - 1,
}
"""Changes of a value.

The first is large enough for every floating dtype, and small enough to keep branches the same.
"""

Again = Callable[[NamedBridges, bool], Record | None]
"""Runs a program again with some values bridged or changed, recording all names if asked to; None if it fails."""


class Runs:
    """A program that can be run again, with limits on the number of runs and on their total time."""

    def __init__(self, again: Again, arrays: Arrays, limit: Limit) -> None:
        self.again, self.arrays, self.limit = again, arrays, limit
        self.left, self.until = min(MOST_RUNS, limit.runs), monotonic() + limit.seconds

    def __call__(self, bridges: NamedBridges, *, wide: bool = False) -> Record | None:
        """Run the program once more and return the record; None if it fails or the limits are reached."""
        if self.left <= 0 or monotonic() >= self.until:
            return None
        self.left -= 1
        self.limit.runs -= 1
        return self.again(bridges, wide)

    @cached_property
    def wide(self) -> Record | None:
        """The record of the unchanged program with all values, unnamed results included; None if it cannot be made."""
        return self(NamedBridges(), wide=True)

    def is_same(self, one: Entry | None, other: Entry | None) -> bool:
        """Do two entries hold the same numbers, except for rounding? True if neither can be read."""
        from numpy import array_equal, isfinite  # importing backprobe must not import NumPy

        first, second = self.numbers(one), self.numbers(other)
        if first is None or second is None:
            return first is second
        if first.shape != second.shape:
            return False
        if array_equal(first, second, equal_nan=first.dtype.kind in "fc"):
            return True
        if first.dtype.kind not in "fc" or not (isfinite(first).all() and isfinite(second).all()):
            return False
        return bool(abs(first - second).max() <= SAME * max(abs(first).max(), abs(second).max()))

    def numbers(self, entry: Entry | None) -> Any:
        """Return an entry's numbers as a NumPy array; None if they cannot be read."""
        from numpy import asarray

        try:
            value = None if entry is None or entry.status is GradStatus.NOT_EXECUTED else entry.value
        except BackprobeError:
            return None
        if self.arrays.is_tensor(value):
            return self.arrays.numbers(value)
        return asarray(value) if isinstance(value, int | float | complex) or type(value).__module__ == "numpy" else None


def of_name(record: Record | None, full: str) -> Entry | None:
    """The entry with this full name, if the record has one."""
    position = None if record is None else record.names.get(full)
    return None if record is None or position is None else record.entries[position]


def full_names(record: Record) -> Mapping[int, str]:
    """The first full name of each entry, by position."""
    return {at: full for full, at in reversed([*record.names.items()])}
