"""Counts of numbers by magnitude, with a bin for each power of two. They show which numbers a dtype cannot
represent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import reduce

import numpy
from numpy.typing import NDArray

from backprobe.record.statistics import PART, Numbers


@dataclass(frozen=True, eq=False)
class Exponents:
    """Counts of finite numbers other than zero: ``counts[i]`` numbers have a magnitude from ``2**(low + i)`` up to
    twice that.

    ``smallest`` is the smallest magnitude; infinite if there is none.
    """

    low: int = 0
    counts: NDArray[numpy.int64] = field(default_factory=lambda: numpy.zeros(0, numpy.int64))
    smallest: float = math.inf

    def times(self, repeats: int) -> Exponents:
        """The counts if every number occurred ``repeats`` times as often."""
        return Exponents(self.low, self.counts * repeats, self.smallest)

    def shifted(self, by: int) -> Exponents:
        """The counts for all numbers multiplied by ``2**by``."""
        return Exponents(self.low + by, self.counts, self.smallest * 2.0**by)


NONE = Exponents()


def exponents(numbers: Numbers) -> Exponents:
    """The exponents of an array of floating numbers.

    >>> found = exponents(numpy.array([0.0, 1.5, -1.0, 0.25, math.inf]))
    >>> found.low, found.counts.tolist(), found.smallest
    (-2, [1, 0, 2], 0.25)
    """
    flat = numbers.reshape(-1)
    if flat.size > PART:
        return reduce(merged_exponents, [exponents(flat[at : at + PART]) for at in range(0, flat.size, PART)])
    flat = numpy.abs(flat)
    flat = flat[numpy.isfinite(flat) & (flat > 0)]
    if not flat.size:
        return NONE
    bins = numpy.frexp(flat)[1].astype(numpy.int64) - 1  # the mantissa that frexp returns is at least 1/2 and below 1
    low = int(bins.min())
    return Exponents(low, numpy.bincount(bins - low), float(flat.min()))


def merged_exponents(first: Exponents, second: Exponents) -> Exponents:
    """The counts of both sets of numbers together.

    >>> both = merged_exponents(exponents(numpy.array([1.0])), exponents(numpy.array([4.0, 5.0])))
    >>> both.low, both.counts.tolist()
    (0, [1, 0, 2])
    """
    if not first.counts.size or not second.counts.size:
        return second if not first.counts.size else first
    powers, counts = table_of([first, second])
    return Exponents(int(powers[0]), counts.sum(axis=0), min(first.smallest, second.smallest))


def table_of(rows: list[Exponents]) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
    """The exponents from the lowest to the highest of all rows, and the counts of each row: int64 of shape (rows,
    exponents).
    """
    held = [one for one in rows if one.counts.size]
    low = min((one.low for one in held), default=0)
    high = max((one.low + one.counts.size for one in held), default=0)
    counts = numpy.zeros((len(rows), high - low), numpy.int64)
    for row, one in zip(counts, rows, strict=True):
        row[one.low - low : one.low - low + one.counts.size] = one.counts
    return numpy.arange(low, high), counts
