"""Relations between an array and its reference: a multiple, a rounding, another order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.backends.rows import Rows, in_memory, index_of
from backprobe.diff.floor import Floor
from backprobe.diff.measure import Index
from backprobe.diff.measuring import chunks

LARGEST = 1 << 22  # elements that are sorted
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


def likeness(a: Rows, b: Rows, floor: Floor, at: Index | None, times: float = 1.0) -> Likeness:
    """Look again at two arrays of one shape, the second multiplied by ``times``.

    >>> a, b = Rows.of(numpy.array([1.0, 2.0, 3.0, 5.0])), Rows.of(numpy.array([2.0, 4.0, 6.0, 10.0]))
    >>> likeness(a, b, Floor(1e-6, 1e-6), (3,)).factor
    2.0
    """
    seen, (x, y, axes) = _Sums(), in_memory(a, b)
    for chunk in chunks(x, y, times):
        seen.add(*chunk, floor)
    each = 2 if a.is_complex or b.is_complex else 1
    first = None if seen.first is None else index_of(seen.first // each, a.shape, axes)
    pair = None if at is None else (a.at(at), b.at(at) if times == 1.0 else b.at(at) * times)
    if a.size < FEWEST or each == 2 or not seen.is_finite:
        return Likeness(seen.beyond, first, pair)
    order = _order(a, b, floor, times, seen)
    return Likeness(seen.beyond, first, pair, None if order else seen.factor(floor), order, _dtype(a, b, times))


class _Sums:
    """What one pass over both tells."""

    def __init__(self) -> None:
        self.count = self.beyond = 0
        self.first: int | None = None
        self.is_finite = True
        self.sums, self.squares, self.dot = [0.0, 0.0], [0.0, 0.0], 0.0

    @numpy.errstate(over="ignore", invalid="ignore")
    def add(self, x: Any, y: Any, floor: Floor) -> None:
        outside = ~(numpy.abs(y - x) <= floor.largest) & (x != y) & ~(numpy.isnan(x) & numpy.isnan(y))
        beyond = int(numpy.count_nonzero(outside))
        if beyond and self.first is None:
            self.first = self.count + int(outside.argmax())
        self.beyond, self.count = self.beyond + beyond, self.count + x.size
        x, y = x.astype(numpy.float64, copy=False), y.astype(numpy.float64, copy=False)
        for at, one in enumerate((x, y)):
            self.sums[at] += float(one.sum())
            self.squares[at] += float(one @ one)
        self.dot += float(x @ y)
        self.is_finite = self.is_finite and all(map(math.isfinite, (*self.sums, *self.squares)))

    def factor(self, floor: Floor) -> float | None:
        """The number that the first is to be multiplied by to be the second."""
        (square, other), dot = self.squares, self.dot
        if not square:
            return None
        factor = dot / square
        rest = max(other - 2 * factor * dot + factor * factor * square, 0.0)
        is_near = (rest / self.count) ** 0.5 <= max(floor.rms, 1e-6 * abs(factor) * (square / self.count) ** 0.5)
        return float(f"{factor:.6g}") if is_near and factor else None

    def may_be_permuted(self, floor: Floor) -> bool:
        """Are the sums and the norms as near to each other as those of the same numbers in two orders?"""
        near = floor.largest + 1e-6 * (max(self.squares) / self.count) ** 0.5
        norms = [square**0.5 for square in self.squares]
        is_sum_near = abs(self.sums[0] - self.sums[1]) <= self.count * near
        return bool(is_sum_near and abs(norms[0] - norms[1]) <= self.count**0.5 * near)


def _order(a: Rows, b: Rows, floor: Floor, times: float, seen: _Sums) -> str:
    """``transposed`` or ``permuted``, where it is the same numbers in another order."""
    if not seen.may_be_permuted(floor):
        return ""
    if a.ndim == 2 and a.shape[0] == a.shape[1] and _near(a.transpose(), b, floor, times):
        return "transposed"
    if a.size > LARGEST:
        return ""
    x, y = (numpy.sort(one.array(), axis=None) for one in (a, b))
    if times != 1.0:
        y = numpy.sort(y * times)
    is_near = _near(Rows.of(x), Rows.of(y), floor, 1.0)
    return "permuted" if is_near and x[-1] - x[0] > 2 * floor.largest else ""


def _near(a: Rows, b: Rows, floor: Floor, times: float) -> bool:
    return all(bool((numpy.abs(y - x) <= floor.largest).all()) for x, y in chunks(a, b, times))


def _dtype(a: Rows, b: Rows, times: float) -> str:
    """A coarser dtype that all numbers of the second have, and not all of the first's."""
    x, y = next(chunks(a, b, times))
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
