"""Mergeable statistics of numbers: of parts of a tensor, calls of a module, micro-batches or processes.

A row is a tuple of ten floats, one for each of ``COLUMNS``. Counts and extremes are exact however the numbers are
split; sums are exact up to rounding: each part is summed in float32 or wider, and parts are added in float64. All
columns except the count and the counts of NaN and Inf cover only finite numbers. So a single NaN does not spoil a mean,
and is still counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy
from numpy.typing import NDArray

Row = tuple[float, ...]
Numbers = NDArray[Any]

COLUMNS = ("count", "finite", "nan", "posinf", "neginf", "zeros", "sum", "squares", "min", "max")
NOTHING: Row = (0.0,) * 8 + (math.inf, -math.inf)
"""The row of statistics of no numbers at all. Merging it with another row changes nothing."""

CHUNK = 1 << 18  # elements of a chunk, small enough to stay in the processor's cache until it is read again
PART = 1 << 14  # elements that are copied together, to keep the memory of a watch below one MB
# below this mean square in float32, squares have lost digits: the smallest normal number / epsilon
UNDERFLOW = 2.0**-102
CANCELLATION = 0.05  # below this variance / mean square, a deviation from float32 sums would be mostly rounding


def measured(numbers: Numbers, total: float | None = None) -> Row:
    """The row of an array of float32 or float64. ``total`` is its sum, if known.

    If the sum is finite, all numbers are, so NaN and Inf need not be counted.

    >>> dict(zip(COLUMNS, measured(numpy.array([0.0, 3.0, math.nan])), strict=True))["squares"]
    9.0
    """
    if not numbers.size:
        return NOTHING
    flat = numbers.reshape(-1)
    with numpy.errstate(all="ignore"):  # an overflow shows in the result
        if total is None:
            total = float(numpy.add.reduce(flat))
        squares = float(numpy.dot(flat, flat)) if math.isfinite(total) else math.inf
        size = flat.size
        if math.isinf(squares):
            return _measured_wide(flat)
        zeros = int(numpy.count_nonzero(numpy.equal(flat, 0)))
        if flat.dtype != numpy.float64 and zeros < size and _is_rounded(size, total, squares):
            return _measured_wide(flat)
        low, high = float(numpy.minimum.reduce(flat)), float(numpy.maximum.reduce(flat))
    return (float(size), float(size), 0.0, 0.0, 0.0, float(zeros), total, squares, low, high)


def _is_rounded(size: int, total: float, squares: float) -> bool:
    # Are float32 sums too coarse, because squares underflow or the variance is small compared with the mean square?
    return squares < size * UNDERFLOW or size * squares - total * total < CANCELLATION * size * squares


def _measured_wide(flat: Numbers) -> Row:
    # The row computed in float64, from numbers that may not be finite.
    return reduce(merged, [_measured_part(flat[at : at + PART]) for at in range(0, flat.size, PART)])


def _measured_part(flat: Numbers) -> Row:
    size = flat.size
    kept = flat[numpy.isfinite(flat)].astype(numpy.float64)
    nan, above = (int(numpy.count_nonzero(found)) for found in (numpy.isnan(flat), numpy.isposinf(flat)))
    counts = (size, kept.size, nan, above, size - kept.size - nan - above, int(numpy.count_nonzero(kept == 0)))
    if not kept.size:
        return (*map(float, counts), *NOTHING[6:])
    sums = (float(kept.sum()), float(numpy.dot(kept, kept)))
    return (*map(float, counts), *sums, float(kept.min()), float(kept.max()))


def merged(first: Row, second: Row) -> Row:
    """The row of both sets of numbers together.

    >>> merged(measured(numpy.array([1.0])), measured(numpy.array([2.0, 4.0])))[6:]
    (7.0, 21.0, 1.0, 4.0)
    """
    a, b, c, d, e, f, g, h, low, high = first
    A, B, C, D, E, F, G, H, lower, higher = second  # noqa: N806
    return (a + A, b + B, c + C, d + D, e + E, f + F, g + G, h + H, min(low, lower), max(high, higher))


def repeated(row: Row, times: int) -> Row:
    """The row if every number occurs ``times`` times, as in an expanded tensor.

    >>> repeated(measured(numpy.array([2.0])), 3)[6:]
    (6.0, 12.0, 2.0, 2.0)
    """
    return (*(number * times for number in row[:8]), *row[8:])


def scaled(row: Row, factor: float) -> Row:
    """The row of statistics of the numbers multiplied by a positive factor."""
    sums = (row[6] * factor, row[7] * factor * factor)
    return (*row[:6], *sums, row[8] * factor, row[9] * factor)


def merge_columns(into: Mapping[str, Numbers], other: Mapping[str, Numbers], where: Any = ...) -> None:
    """Merge the second set of columns into the rows ``where`` of the first set."""
    for column, numbers in other.items():
        join = {"min": numpy.minimum, "max": numpy.maximum}.get(column, numpy.add)
        held = into[column][where]
        join(held, numbers, out=held)
        # irregular indices make ``held`` a copy, which is written back
        if not numpy.may_share_memory(held, into[column]):
            into[column][where] = held


# Statistics that are computed from rows.


def _mean(of: Mapping[str, Numbers]) -> Numbers:
    return of["sum"] / of["finite"]


def _rms(of: Mapping[str, Numbers]) -> Any:
    return numpy.sqrt(of["squares"] / of["finite"])


def _std(of: Mapping[str, Numbers]) -> Any:
    return numpy.sqrt(numpy.maximum(of["squares"] / of["finite"] - _mean(of) ** 2, 0))


def _absmax(of: Mapping[str, Numbers]) -> Numbers:
    largest: Numbers = numpy.maximum(-_where("finite", "min")(of), _where("finite", "max")(of))
    return largest


def _where(count: str, column: str) -> Callable[[Mapping[str, Numbers]], Numbers]:
    # Return a function that gives a column, with NaN where this count is 0.
    return lambda of: numpy.where(of[count] > 0, of[column], numpy.nan)


STATISTICS: Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, Numbers]], Numbers]]] = {
    **{column: (("count", column), _where("count", column)) for column in COLUMNS[:8]},
    **{column: (("finite", column), _where("finite", column)) for column in COLUMNS[8:]},
    "mean": (("finite", "sum"), _mean),
    "rms": (("finite", "squares"), _rms),
    "std": (("finite", "sum", "squares"), _std),
    "absmax": (("finite", "min", "max"), _absmax),
}
"""For each statistic by name: the columns from which it is computed, and the function. The result is NaN where the
first of these columns is 0.
"""


def statistic(name: str, columns: Mapping[str, Numbers]) -> Numbers:
    """A statistic of many rows, given as columns.

    >>> row = measured(numpy.array([3.0, -3.0, math.inf]))
    >>> columns = {column: numpy.array([number]) for column, number in zip(COLUMNS, row, strict=True)}
    >>> statistic("rms", columns), statistic("posinf", columns)
    (array([3.]), array([1.]))
    """
    with numpy.errstate(all="ignore"):
        return STATISTICS[name][1](columns)


def columns_for(statistics: Iterable[str]) -> list[str]:
    """The columns that these statistics need."""
    needed = {column for name in statistics for column in STATISTICS[name][0]}
    return [column for column in COLUMNS if column in needed]
