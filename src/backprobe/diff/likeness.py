"""Finds a simple relation between an array and its reference: a multiple, a rounding, or another order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.backends.rows import Rows, in_memory, index_of
from backprobe.diff.floor import Floor
from backprobe.diff.measure import Index
from backprobe.diff.measuring import chunks, counted, parts_of

LARGEST = 1 << 22  # arrays with more elements are not sorted
FEWEST = 4  # in smaller arrays, a relation may be a coincidence
EXPLAINED = 100
"""An explanation must reduce the largest error by this factor."""


@dataclass(frozen=True)
class Likeness:
    """The relation between two arrays that differ.

    ``beyond`` counts the elements whose error exceeds the floor, and ``first`` is the index of the first one. ``pair``
    are the two numbers with the largest error. ``order`` is set if the second array has the numbers of the first in
    another order; else ``factor`` is set if it is a multiple of the first. Each is set only if it explains the error of
    every element, down to the floor and to a hundredth of the largest error. ``dtype`` is set if all numbers of the
    second, but not all of the first, can be represented in this coarser dtype.
    """

    beyond: int
    first: Index | None
    pair: tuple[Any, Any] | None
    factor: float | None = None
    order: str = ""
    dtype: str = ""


def likeness(a: Rows, b: Rows, floor: Floor, at: Index | None, times: float = 1.0) -> Likeness:
    """Compare two arrays of one shape again, to find how they are related; the second is multiplied by ``times``.

    >>> a, b = Rows.of(numpy.array([1.0, 2.0, 3.0, 5.0])), Rows.of(numpy.array([2.0, 4.0, 6.0, 10.0]))
    >>> likeness(a, b, Floor(1e-6, 1e-6), (3,)).factor
    2.0
    """
    each, (x, y, axes) = parts_of(a, b), in_memory(a, b)
    seen = _Sums(each)
    for chunk in chunks(x, y, times):
        seen.add(*chunk, floor)
    first = None if seen.first is None else index_of(seen.first // each, a.shape, axes)
    pair = None if at is None else (a.at(at), b.at(at) if times == 1.0 else b.at(at) * times)
    if a.size < FEWEST or each == 2 or not seen.is_finite:
        return Likeness(seen.beyond, first, pair)
    left = min(floor.largest, seen.largest / EXPLAINED)
    order = _order(a, b, left, times, seen)
    factor = None if order else seen.factor(floor)
    if factor is not None:
        factor = float(f"{factor:.6g}") if _near(a, b, left, times, factor) else None
    return Likeness(seen.beyond, first, pair, factor, order, _dtype(a, b, times))


class _Sums:
    # Sums over both arrays, collected in one pass.
    def __init__(self, each: int) -> None:
        self.each = each
        self.count = self.beyond = 0
        self.largest = 0.0
        self.first: int | None = None
        self.is_finite = True
        self.sums, self.squares, self.dot = [0.0, 0.0], [0.0, 0.0], 0.0

    @numpy.errstate(over="ignore", invalid="ignore")
    def add(self, x: Any, y: Any, floor: Floor) -> None:
        error = numpy.abs(y - x)
        self.largest = max(self.largest, float(numpy.nanmax(error, initial=0.0)))
        outside = ~(error <= floor.largest) & (x != y) & ~(numpy.isnan(x) & numpy.isnan(y))
        beyond = counted(outside, self.each)
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
        # The factor that turns the first array into the second, by least squares; None if none does.
        (square, other), dot = self.squares, self.dot
        if not square:
            return None
        factor = dot / square
        rest = max(other - 2 * factor * dot + factor * factor * square, 0.0)
        is_near = (rest / self.count) ** 0.5 <= max(floor.rms, 1e-6 * abs(factor) * (square / self.count) ** 0.5)
        return factor if is_near and factor else None

    def may_be_permuted(self, left: float) -> bool:
        # May the arrays contain the same numbers in two orders? Their sums and norms must then be nearly equal.
        near = left + 1e-6 * (max(self.squares) / self.count) ** 0.5
        norms = [square**0.5 for square in self.squares]
        is_sum_near = abs(self.sums[0] - self.sums[1]) <= self.count * near
        return bool(is_sum_near and abs(norms[0] - norms[1]) <= self.count**0.5 * near)


def _order(a: Rows, b: Rows, left: float, times: float, seen: _Sums) -> str:
    # Return ``transposed`` or ``permuted`` if the arrays have the same numbers in another order, else an empty string.
    if not seen.may_be_permuted(left):
        return ""
    if a.ndim == 2 and a.shape[0] == a.shape[1] and _near(a.transpose(), b, left, times):
        return "transposed"
    if a.size > LARGEST:
        return ""
    x, y = (numpy.sort(one.array(), axis=None) for one in (a, b))
    if times != 1.0:
        y = numpy.sort(y * times)
    is_near = _near(Rows.of(x), Rows.of(y), left, 1.0)
    return "permuted" if is_near and x[-1] - x[0] > 2 * left else ""


def _near(a: Rows, b: Rows, left: float, times: float, factor: float = 1.0) -> bool:
    # Does the second array equal a multiple of the first, within this tolerance at each element?
    return all(bool((numpy.abs(y - factor * x) <= left).all()) for x, y in chunks(a, b, times))


def _dtype(a: Rows, b: Rows, times: float) -> str:
    # Return a coarser dtype that can represent all numbers of the second array, but not all of the first; else "".
    for name, rounded in (("bfloat16", _bfloat16), ("float16", _as(numpy.float16)), ("float32", _as(numpy.float32))):
        if _is_of(rounded, a, b, times):
            return name
    return ""


def _is_of(rounded: Any, a: Rows, b: Rows, times: float) -> bool:
    # Does this rounding leave b unchanged, but change a? Then b was probably rounded in this way.
    is_other = is_there = False
    for x, y in chunks(a, b, times):
        if not _same(rounded, y):
            return False
        is_other, is_there = is_other or not _same(rounded, x), is_there or bool(y.any())
    return is_other and is_there


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
