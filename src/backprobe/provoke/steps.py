"""The next inputs to try: rows of numbers that should bring an operand to an end of its range, from its slope.

Distances are measured in the widths of the bounds, so that arguments of different sizes count alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

Array = Any
SMALLEST = 1e-46  # what is below the least number of single precision
OVERSHOOT = 1.001
DECIMALS = (6, 4, 3, 2, 1, 0)
FEW = 3
CLIPPINGS = 6


def newton(row: Array, margin: float, slope: Array, low: Array, high: Array, factor: float = OVERSHOOT) -> Array:
    """The smallest change that removes ``factor`` times the margin, if the slope remains the same.

    A number that has reached its bound goes no further, and the others go further instead.
    """
    width, wanted = high - low, factor * margin
    scaled, new = slope * width, row.astype(float)
    free = (scaled != 0) & numpy.isfinite(scaled)
    for _ in range(CLIPPINGS):
        steep = numpy.where(free, scaled, 0.0)
        largest = numpy.abs(steep).max(initial=0.0)
        if not largest or wanted <= 0:
            break
        unit = steep / largest  # slopes that underflow when they are squared still say where to go
        moved = numpy.clip(new - wanted / largest * unit * width / (unit @ unit), low, high)
        wanted -= float(((new - moved) * numpy.where(free, slope, 0.0)).sum())
        free &= (moved > low) & (moved < high)
        new = moved
        if wanted <= margin * 1e-9:
            break
    return new


def far(row: Array, margin: float, slope: Array, low: Array, high: Array) -> Array:
    """The same if the logarithm of the margin falls evenly, as for a probability."""
    return newton(row, margin, slope, low, high, float(numpy.log(margin / SMALLEST)))


def corner(row: Array, slope: Array, low: Array, high: Array) -> Array:
    """Where each number is at the end that the slope leads to."""
    return numpy.where(slope > 0, low, numpy.where(slope < 0, high, row))


def exact(row: Array, margin: float, slope: Array, low: Array, high: Array) -> Iterator[Array]:
    """Rows near one that is nearly at the end: all numbers are short, except one that takes the remainder.

    A sum of long numbers is seldom exactly 0.
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
    """Where the search begins: the example, 0, equal numbers, the ends and the middle of the bounds, and at random."""
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
