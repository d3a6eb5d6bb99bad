"""A series of numbers as a row of small columns of text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy
from numpy.typing import NDArray

Matrix = NDArray[numpy.float64]

LEVELS = "▁▂▃▄▅▆▇█"
BAD, NOTHING, ZERO = "!", " ", "_"
WIDTH = 10
LEAST = 2.0  # the smallest ratio between the ends of a scale: a series that changes less looks nearly level


def bins(count: int, width: int = WIDTH) -> Iterator[slice]:
    """Split ``count`` steps into at most ``width`` slices of nearly equal length.

    >>> list(bins(5, 2))
    [slice(0, 2, None), slice(2, 5, None)]
    """
    width = min(width, count)
    edges = [count * at // width for at in range(width + 1)] if width else []
    yield from map(slice, edges, edges[1:])


def spark(numbers: Matrix, bad: Matrix | None = None, width: int = WIDTH) -> str:
    """Draw magnitudes as columns on a logarithmic scale: ``!`` where ``bad`` is not 0, ``_`` for zero, blank for no
    finite number.

    >>> spark(numpy.array([1.0, 5.0, 100.0, 0.0, numpy.nan]))
    '▁▃█_ '
    """
    means = [_mean(numbers[part]) for part in bins(len(numbers), width)]
    ill = [bool(bad is not None and bad[part].any()) for part in bins(len(numbers), width)]
    low, high = _scale(numpy.array(means))
    return "".join(BAD if is_ill else level(mean, low, high) for mean, is_ill in zip(means, ill, strict=True))


def _mean(numbers: Matrix) -> float:
    known = numbers[numpy.isfinite(numbers)]
    return float(known.mean()) if len(known) else numpy.nan


def _scale(numbers: Matrix) -> tuple[float, float]:
    # The smallest and largest number of a scale. If they differ by less than a factor of ``LEAST``, the scale is
    # widened to that factor, with the numbers in its middle.
    known = abs(numbers[numpy.isfinite(numbers) & (numbers != 0)])
    if not len(known):
        return 1.0, LEAST
    low, high = float(known.min()), float(known.max())
    wider = max(LEAST / (high / low), 1.0) ** 0.5
    return low / wider, high * wider


def level(number: float, low: float, high: float) -> str:
    """The column of one number, on a logarithmic scale from ``low`` to ``high``."""
    if not numpy.isfinite(number):
        return NOTHING
    if number == 0:
        return ZERO
    share = numpy.log(abs(number) / low) / numpy.log(high / low)
    return LEVELS[int(numpy.clip(share * len(LEVELS), 0, len(LEVELS) - 1))]


def levels(numbers: Matrix, low: float, high: float) -> str:
    """Draw numbers as columns on a given scale, so that several rows can share it."""
    return "".join(level(float(number), low, high) for number in numbers)


def short(number: float) -> str:
    """A number with two significant digits; empty for NaN.

    >>> short(0.12345), short(1e-7), short(numpy.nan), short(1234.5)
    ('0.12', '1e-07', '', '1.2e+03')
    """
    return "" if numpy.isnan(number) else f"{number:.2g}"


def ends(numbers: Matrix) -> tuple[float, float]:
    """Return the first and the last number that is not NaN; NaN if there is none.

    >>> ends(numpy.array([numpy.nan, 1.0, 2.0]))
    (1.0, 2.0)
    """
    known = numbers[~numpy.isnan(numbers)]
    return (float(known[0]), float(known[-1])) if len(known) else (numpy.nan, numpy.nan)
