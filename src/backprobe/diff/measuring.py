"""Distances between two arrays: norms, cosine, units in the last place, and the first difference.

Both arrays are read once, in chunks that fit a cache, so that neither has to fit into memory. NaN at the same index of
both arrays counts as equal. It is left out of the norms, as are equal infinities, and the equal large negative numbers
of attention masks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from backprobe.backends.rows import Rows, in_memory, index_of, together
from backprobe.diff.measure import MANY, Index, Measure
from backprobe.diff.ulps import INTEGERS, bits, distance

EASY = {numpy.dtype(numpy.float32): (1e-12, 1e12), numpy.dtype(numpy.float64): (1e-100, 1e100)}
"""For each dtype, the magnitudes between which sums of squares over a chunk are accurate."""

LARGEST = {"float16": 65519.0, "bfloat16": 3.3961e38}
"""For each dtype, the largest number that does not become Inf."""
MASK = -1e4
"""Equal numbers at or below this belong to a mask. They are ignored, because they would dominate every norm."""


def measure(reference: Rows, other: Rows, dtype: str = "", factor: float = 1.0) -> Measure:
    """Compare two arrays of one shape. ``dtype`` is the coarser of the dtypes in which they were computed.

    The second is multiplied by ``factor`` first.

    >>> found = measure(Rows.of(numpy.array([3.0, 4.0])), Rows.of(numpy.array([3.0, 9.0])))
    >>> found.relative, found.largest, found.at, found.differing
    (1.0, 5.0, (1,), 1)
    """
    sums = ChunkSums(reference, other, dtype, factor)
    a, b, axes = in_memory(reference, other)
    for x, y in together(a, b):
        sums.add(x, y)
    return sums.measure(reference.shape, axes)


def chunks(a: Rows, b: Rows, factor: float = 1.0) -> Iterator[tuple[Any, Any]]:
    """Yield the numbers of two arrays in flat chunks, in index order; the second is multiplied by ``factor``.

    They are float32 if neither is wider, else float64; a complex number becomes two adjacent elements.
    """
    return (numbers(a, b, x, y, factor) for x, y in together(a, b))


def numbers(a: Rows, b: Rows, x: Any, y: Any, factor: float) -> tuple[Any, Any]:
    """Convert a chunk of each array to floating-point numbers of one dtype."""
    x, y = a.numbers(x), b.numbers(y)
    if x.dtype != y.dtype:
        kind = numpy.result_type(x, y)
        x, y = x.astype(kind, copy=False), y.astype(kind, copy=False)
    if x.dtype.kind == "c":
        x, y = x.view(x.real.dtype), y.view(y.real.dtype)
    return x, y if factor == 1.0 else y * y.dtype.type(factor)


class ChunkSums:
    """Sums over the chunks so far. Norms are added with ``hypot``, which neither overflows nor underflows."""

    def __init__(self, a: Rows, b: Rows, dtype: str, factor: float) -> None:
        self.rows, self.dtype, self.factor = (a, b), dtype, factor
        self.each = parts_of(a, b)
        self.is_stored_so = a.dtype == b.dtype and factor == 1.0
        """True if stored bits can be compared directly, because no conversion changes the numbers."""
        self.elements = self.differing = self.clashes = 0
        self.reference = self.other = self.difference = self.dot = 0.0
        self.largest = self.reference_largest = 0.0
        self.at: int | None = None
        self.first: int | None = None
        self.ulps: int | None = 0 if dtype in INTEGERS else None

    @numpy.errstate(over="ignore", invalid="ignore")
    def add(self, x: Any, y: Any) -> None:
        """Add a chunk of both arrays, as stored."""
        if self.is_stored_so and _has_equal_bits(x, y):
            a, _ = numbers(*self.rows, x, x[:0], 1.0)
            self._add_equal(a)
        else:
            a, b = numbers(*self.rows, x, y, self.factor)
            difference = b - a
            low, high, most = float(a.min()), float(a.max()), top(difference)
            if not math.isfinite(most):
                self._add_cleaned(a, b)
            elif low > MASK:
                self._add(a, b, difference, max(-low, high), most, (x, y))
            else:
                masked = (a <= MASK) & (difference == 0)
                a, b = numpy.where(masked, 0, a), numpy.where(masked, 0, b)
                self._add(a, b, difference, top(a), most, None)
        self.elements += a.size

    def _add_equal(self, a: Any) -> None:
        largest = top(a)
        if not (math.isfinite(largest) and a.min() > MASK):
            a = numpy.where(numpy.isfinite(a) & (a > MASK), a, 0)
            largest = top(a)
        norm = norm_of(a, largest)
        self._add_norms(norm, norm, norm * norm, largest)

    def _add_norms(self, reference: float, other: float, dot: float, largest: float) -> None:
        self.reference, self.other = math.hypot(self.reference, reference), math.hypot(self.other, other)
        self.dot += dot
        self.reference_largest = max(self.reference_largest, largest)

    def _add_cleaned(self, a: Any, b: Any) -> None:
        # Add a chunk after replacing numbers that are not finite, and numbers of a mask, by zeros.
        unequal = a != b
        unequal &= ~(numpy.isnan(a) & numpy.isnan(b)) & ~(_overflown(a, b, self.dtype) | _overflown(b, a, self.dtype))
        finite = numpy.isfinite(a) & numpy.isfinite(b)
        clashing = unequal & ~finite
        count = counted(clashing, self.each)
        if count:
            if not self.clashes:
                self.at = self.elements + int(clashing.argmax())
            self.clashes += count
            self._count(clashing)
        kept = finite & ((a > MASK) | (a != b))
        a, b = numpy.where(kept, a, 0), numpy.where(kept, b, 0)
        if not math.isfinite(top(b - a)):
            a, b = a.astype(numpy.float64), b.astype(numpy.float64)
        self._add(a, b, b - a, top(a), top(b - a), None)

    def _add(self, a: Any, b: Any, difference: Any, largest: float, most: float, stored: Any) -> None:
        # Add finite numbers. ``largest`` and ``most`` are the largest magnitudes of the first array and of the
        # difference. ``stored`` are both chunks as stored, or None if numbers were replaced.
        own, norm = norm_of(a, largest), norm_of(difference, most)
        if norm <= own / 2:  # nothing cancels, so the second array need not be read again
            dot = _dot(a, difference, largest, most)
            self._add_norms(own, math.sqrt(own * own + 2 * dot + norm * norm), own * own + dot, largest)
        else:
            other = top(b)
            self._add_norms(own, norm_of(b, other), _dot(a, b, largest, other), largest)
        if not most:
            return
        self.difference = math.hypot(self.difference, norm)
        self._count(difference != 0)
        if most > self.largest:
            self.largest = most
            if not self.clashes:
                low, high = int(difference.argmin()), int(difference.argmax())
                self.at = self.elements + (high if difference[high] == most else low)
        self._count_ulps(a, b, stored)

    def _count_ulps(self, a: Any, b: Any, stored: Any) -> None:
        if self.ulps is None or self.ulps == MANY[self.dtype]:
            return
        of = [
            raw.view(INTEGERS[self.dtype])
            if raw is not None and rows.dtype == self.dtype and self.factor == 1.0
            else bits(values, self.dtype)
            for values, raw, rows in zip((a, b), stored or (None, None), self.rows, strict=True)
        ]
        self.ulps = max(self.ulps, distance(of[0], of[1], self.dtype))

    def _count(self, unequal: Any) -> None:
        # Count elements that are not equal.
        count = counted(unequal, self.each)
        if count:
            first = self.elements + int(unequal.argmax())
            self.first = first if self.first is None else min(self.first, first)
        self.differing += count

    def measure(self, shape: Index, axes: Sequence[int]) -> Measure:
        """The result over all chunks."""
        size = math.prod(shape)
        root, both = math.sqrt(max(size, 1)), self.reference * self.other
        return Measure(
            size=size,
            relative=math.inf if self.clashes else _ratio(self.difference, self.reference),
            rms=math.inf if self.clashes else self.difference / root,
            largest=math.inf if self.clashes else self.largest,
            at=_index(self.at, self.each, shape, axes),
            cosine=max(-1.0, min(1.0, self.dot / both)) if both and math.isfinite(both) else None,
            ulps=self.ulps,
            differing=self.differing,
            first=_index(self.first, self.each, shape, axes),
            clashes=self.clashes,
            reference_rms=self.reference / root,
            reference_largest=self.reference_largest,
        )


def parts_of(a: Rows, b: Rows) -> int:
    """The adjacent numbers that stand for an element of both arrays: two for a complex number."""
    return 2 if a.is_complex or b.is_complex else 1


def counted(flags: Any, each: int) -> int:
    """The number of elements with a flag, where each element has ``each`` adjacent flags."""
    return int(numpy.count_nonzero(flags if each == 1 else flags.reshape(-1, each).any(axis=1)))


def _has_equal_bits(x: Any, y: Any) -> bool:
    wide = numpy.uint64 if x.nbytes % 8 == 0 else numpy.dtype(f"u{min(x.itemsize, 8)}")
    return bool((x.view(wide) == y.view(wide)).all())


def _overflown(infinite: Any, mask: Any, dtype: str) -> Any:
    # Return a mask of the elements that are -Inf in one array and a large negative number, as in an attention mask, in
    # the other. They count as equal, because the dtype of the first array cannot hold that number.
    return (infinite == -numpy.inf) & (mask < min(MASK, -LARGEST.get(dtype, numpy.inf)))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.inf if part else 0.0


def _index(flat: int | None, each: int, shape: Index, axes: Sequence[int]) -> Index | None:
    return None if flat is None else index_of(flat // each, shape, axes)


def top(values: Any) -> float:
    """The largest magnitude, or NaN if there is a NaN."""
    return max(-float(values.min()), float(values.max()))


def is_easy(values: Any, largest: float) -> bool:
    """Can the squares of the array be summed without overflow or underflow?"""
    low, high = EASY[values.dtype]
    return low < largest < high or not largest


def norm_of(values: Any, largest: float) -> float:
    """The root of the sum of squares of an array with a known largest magnitude."""
    if is_easy(values, largest):
        return math.sqrt(float(numpy.dot(values, values)))
    scaled = values.astype(numpy.float64) / largest
    return largest * math.sqrt(float(numpy.dot(scaled, scaled)))


def _dot(a: Any, b: Any, largest: float, other: float) -> float:
    # The inner product of two arrays. It is computed in double precision unless both largest magnitudes show that the
    # arrays' own precision is enough.
    if is_easy(a, largest) and is_easy(b, other):
        return float(numpy.dot(a, b))
    return float(numpy.dot(a.astype(numpy.float64), b.astype(numpy.float64)))
