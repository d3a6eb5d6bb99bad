"""Relations between an array and its reference: a multiple, a rounding, another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.diff.floor import Floor
from backprobe.diff.measure import Index
from backprobe.diff.measuring import chunks

LARGEST = 1 << 24  # elements that are sorted
CHECKED = 1 << 16  # of a rounding: elements that all have it have not by chance
FEWEST = 4  # of which a likeness says something


@dataclass(frozen=True)
class Likeness:
    """What was seen of two arrays at a second look.

    ``beyond`` counts the elements whose error is larger than the floor, of which the first is at ``first``; ``pair``
    are the two numbers where the error is the largest. ``factor`` is there if the second is a multiple of the first,
    but for less than the floor; ``order`` if it has its numbers in another order; ``dtype`` if all its numbers, and not
    all of the first's, are numbers of a coarser dtype.
    """

    beyond: int
    first: Index | None
    pair: tuple[Any, Any] | None
    factor: float | None = None
    order: str = ""
    dtype: str = ""


def likeness(a: Any, b: Any, floor: Floor, at: Index | None) -> Likeness:
    """Look again at two arrays of one shape.

    >>> likeness(numpy.array([1.0, 2.0, 3.0, 5.0]), numpy.array([2.0, 4.0, 6.0, 10.0]), Floor(1e-6, 1e-6), (3,)).factor
    2.0
    """
    beyond, first = _beyond(a, b, floor)
    pair = None if at is None else (a[at].item(), b[at].item())
    if a.size < FEWEST or "c" in (a.dtype.kind, b.dtype.kind) or not (_finite(a) and _finite(b)):
        return Likeness(beyond, first, pair)
    order = _order(a, b, floor)
    return Likeness(beyond, first, pair, None if order else _factor(a, b, floor), order, _dtype(a, b))


def _finite(array: Any) -> bool:
    return bool(numpy.isfinite(array).all())


def _beyond(a: Any, b: Any, floor: Floor) -> tuple[int, Index | None]:
    count, elements, first = 0, 0, None
    each = 2 if "c" in (a.dtype.kind, b.dtype.kind) else 1
    for x, y in chunks(a, b):
        with numpy.errstate(invalid="ignore"):
            outside = ~(numpy.abs(y - x) <= floor.largest) & (x != y) & ~(numpy.isnan(x) & numpy.isnan(y))
        own = int(numpy.count_nonzero(outside))
        if own and first is None:
            first = (elements + int(outside.argmax())) // each
        count, elements = count + own, elements + x.size
    return count, None if first is None else tuple(map(int, numpy.unravel_index(first, a.shape)))


def _factor(a: Any, b: Any, floor: Floor) -> float | None:
    """The number that the first is to be multiplied by to be the second."""
    square = dot = rest = 0.0
    for x, y in _wide(a, b):
        square, dot = square + float(x @ x), dot + float(x @ y)
    if not square:
        return None
    factor = dot / square
    for x, y in _wide(a, b):
        rest += float(numpy.square(y - factor * x).sum())
    is_near = (rest / a.size) ** 0.5 <= max(floor.rms, 1e-6 * abs(factor) * (square / a.size) ** 0.5)
    return float(f"{factor:.6g}") if is_near and factor else None


def _wide(a: Any, b: Any) -> Any:
    return ((x.astype(numpy.float64), y.astype(numpy.float64)) for x, y in chunks(a, b))


def _order(a: Any, b: Any, floor: Floor) -> str:
    """``transposed`` or ``permuted``, where it is the same numbers in another order."""
    if a.ndim == 2 and a.shape[0] == a.shape[1] and _near(a.T, b, floor):
        return "transposed"
    if a.size > LARGEST or not _near(numpy.sort(a, axis=None), numpy.sort(b, axis=None), floor):
        return ""
    return "permuted" if numpy.ptp(a) > 2 * floor.largest else ""


def _near(a: Any, b: Any, floor: Floor) -> bool:
    return bool((numpy.abs(a.astype(numpy.float64) - b) <= floor.largest).all())


def _dtype(a: Any, b: Any) -> str:
    """A coarser dtype that all numbers of the second have, and not all of the first."""
    x, y = (numpy.ravel(one)[:CHECKED] for one in (a, b))
    for name, rounded in (("bfloat16", _bfloat16), ("float16", _as(numpy.float16)), ("float32", _as(numpy.float32))):
        if _same(rounded, y) and not _same(rounded, x) and y.any():
            return name
    return ""


def _same(rounded: Any, values: Any) -> bool:
    return bool((rounded(values) == values).all())


def _as(kind: Any) -> Any:
    def rounded(values: Any) -> Any:
        with numpy.errstate(over="ignore"):
            return values.astype(kind).astype(values.dtype)

    return rounded


def _bfloat16(values: Any) -> Any:
    bits = values.astype(numpy.float32).view(numpy.uint32) & numpy.uint32(0xFFFF0000)
    return bits.view(numpy.float32).astype(values.dtype)
