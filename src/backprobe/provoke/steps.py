"""Proposes the next inputs to try: rows that should move an operand to an end of its range, according to its slope.

Distances are measured in the widths of the bounds, because arguments may differ in size by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

Array = Any
SMALLEST = 1e-46  # less than the smallest positive number of single precision
OVERSHOOT = 1.001
DECIMALS = (6, 4, 3, 2, 1, 0)
FEW = 3
CLIPPINGS = 6


def newton(row: Array, margin: float, slope: Array, low: Array, high: Array, factor: float = OVERSHOOT) -> Array:
    """Return the row after the smallest change that removes ``factor`` times the margin, if the slope remains the same.

    A number that reaches its bound stays there, and the other numbers change more instead.
    """
    width, wanted = high - low, factor * margin
    scaled, new = slope * width, row.astype(float)
    free = (scaled != 0) & numpy.isfinite(scaled)
    for _ in range(CLIPPINGS):
        steep = numpy.where(free, scaled, 0.0)
        largest = numpy.abs(steep).max(initial=0.0)
        if not largest or wanted <= 0:
            break
        unit = steep / largest  # normalized, because tiny slopes would underflow when squared
        moved = numpy.clip(new - wanted / largest * unit * width / (unit @ unit), low, high)
        wanted -= float(((new - moved) * numpy.where(free, slope, 0.0)).sum())
        free &= (moved > low) & (moved < high)
        new = moved
        if wanted <= margin * 1e-9:
            break
    return new


def far(row: Array, margin: float, slope: Array, low: Array, high: Array) -> Array:
    """Return the row that ``newton`` would find if the logarithm of the margin fell linearly, as for a probability."""
    return newton(row, margin, slope, low, high, float(numpy.log(margin / SMALLEST)))


def corner(row: Array, slope: Array, low: Array, high: Array) -> Array:
    """The row with each number at the bound at which the margin is smallest, according to its slope. Numbers with slope
    0 stay.
    """
    return numpy.where(slope > 0, low, numpy.where(slope < 0, high, row))


def exact(row: Array, margin: float, slope: Array, low: Array, high: Array) -> Iterator[Array]:
    """Rows near a given row, whose operand is almost at its end. Numbers are rounded, and in some rows one number takes
    the remainder.

    The reason: a sum of numbers with many digits is seldom exactly 0.
    """
    room = numpy.where(slope > 0, row - low, high - row)
    order = numpy.argsort(-numpy.abs(slope) * numpy.minimum(room, high - low), kind="stable")[:FEW]
    for decimals in DECIMALS:
        short = numpy.clip(numpy.where(high > low, numpy.round(row, decimals), row), low, high)
        yield _with_rest(short, margin + float(slope @ (short - row)), slope, order[0])
        yield short
    for at in order[1:]:
        yield _with_rest(row, margin, slope, at)


def _with_rest(row: Array, margin: float, slope: Array, at: int) -> Array:
    single = row.astype(float)
    if slope[at]:
        single[at] -= margin / slope[at]
    return single


def starts(example: Array, low: Array, high: Array, spans: list[slice], random: Any) -> Iterator[Array]:
    """The starting rows: the example, 0, equal numbers, the lower and upper bounds and their middle, and
    random rows.
    """
    yield example
    yield numpy.clip(numpy.zeros(example.shape), low, high)
    equal = example.astype(float)
    for span in spans:
        equal[span] = numpy.clip(example[span].mean(), low[span], high[span])
    yield equal
    yield low
    yield high
    yield random.uniform(low, high)
    yield (low + high) / 2
    yield random.uniform(low, high)
