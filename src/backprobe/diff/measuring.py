"""Distances between two arrays: norms, cosine, units in the last place, and the first difference.

Both are read once, in chunks that fit a cache, so that neither has to fit into memory. NaN and Inf that both have in
the same place are equal, and are left out of the norms; so are the large negative numbers of a mask.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy

from backprobe.diff.measure import Index, Measure

CHUNK = 1 << 16
EASY = {numpy.dtype(numpy.float32): (1e-12, 1e12), numpy.dtype(numpy.float64): (1e-100, 1e100)}
"""Largest magnitudes between which squares of this dtype, summed over a chunk, lose nothing that is shown."""

LARGEST = {"float16": 65519.0, "bfloat16": 3.3961e38}
"""By dtype: the largest number that does not become Inf in it."""
MASK = -1e4
"""Numbers from here down are a mask's where both have the same: beside them a norm would show nothing else."""


def measure(reference: Any, other: Any, dtype: str = "") -> Measure:
    """Compare two arrays of one shape; ``dtype`` is the coarser of those that they were computed in.

    >>> found = measure(numpy.array([3.0, 4.0]), numpy.array([3.0, 9.0]))
    >>> found.relative, found.largest, found.at, found.differing
    (1.0, 5.0, (1,), 1)
    """
    sums = Sums(dtype)
    for a, b in chunks(reference, other):
        sums.add(a, b)
    return sums.measure(reference.shape)


def chunks(a: Any, b: Any) -> Iterator[tuple[Any, Any]]:
    """Two arrays of one shape in rows, in the order of their indices: of float32 where neither is wider, else float64.

    A complex number is two elements beside each other.
    """
    if "c" in (a.dtype.kind, b.dtype.kind):
        a, b = _parts(a), _parts(b)
    kind = numpy.dtype(numpy.float32 if a.dtype == b.dtype == numpy.float32 else numpy.float64)
    if a.flags.c_contiguous and b.flags.c_contiguous:
        a, b = a.reshape(-1), b.reshape(-1)
        for at in range(0, a.size, CHUNK):
            yield a[at : at + CHUNK].astype(kind, copy=False), b[at : at + CHUNK].astype(kind, copy=False)
    elif a.size:
        flags: Any = ["external_loop", "buffered"]
        yield from numpy.nditer(
            [a, b], flags, [["readonly"]] * 2, [kind] * 2, order="C", casting="unsafe", buffersize=CHUNK
        )


def _parts(array: Any) -> Any:
    return numpy.stack([array.real, array.imag], -1)


class Sums:
    """What is known of the chunks so far. Norms are added by ``hypot``, which neither overflows nor vanishes."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.elements = self.differing = self.clashes = 0
        self.reference = self.other = self.difference = self.dot = 0.0
        self.largest = self.reference_largest = 0.0
        self.at: int | None = None
        self.first: int | None = None
        self.ulps: int | None = 0

    def add(self, a: Any, b: Any) -> None:
        """Add a chunk of both."""
        unequal = a != b
        if not (math.isfinite(top(a)) and math.isfinite(top(b))):
            a, b = self._finite(a, b, unequal)
        if a.min() <= MASK:
            masked = (a <= MASK) & (a == b)
            a, b = numpy.where(masked, 0, a), numpy.where(masked, 0, b)
        self._count(unequal)
        norm = norm_of(a)
        self.reference = math.hypot(self.reference, norm)
        self.reference_largest = max(self.reference_largest, top(a))
        if unequal.any():
            self._add_difference(a, b)
        else:
            self.other = math.hypot(self.other, norm)
            self.dot += norm * norm
        self.elements += a.size

    def _finite(self, a: Any, b: Any, unequal: Any) -> tuple[Any, Any]:
        """Both with zeros in the place of what is not finite."""
        unequal &= ~(numpy.isnan(a) & numpy.isnan(b)) & ~(_overflown(a, b, self.dtype) | _overflown(b, a, self.dtype))
        finite = numpy.isfinite(a) & numpy.isfinite(b)
        clashing = unequal & ~finite
        count = int(numpy.count_nonzero(clashing))
        if count and not self.clashes:
            self.at = self.elements + int(clashing.argmax())
        self.clashes += count
        return numpy.where(finite, a, 0), numpy.where(finite, b, 0)

    def _count(self, unequal: Any) -> None:
        count = int(numpy.count_nonzero(unequal))
        if count and self.first is None:
            self.first = self.elements + int(unequal.argmax())
        self.differing += count

    def _add_difference(self, a: Any, b: Any) -> None:
        difference = b - a
        self.difference = math.hypot(self.difference, norm_of(difference))
        self.other = math.hypot(self.other, norm_of(b))
        self.dot += float(numpy.dot(a.astype(numpy.float64, copy=False), b.astype(numpy.float64, copy=False)))
        if (largest := top(difference)) > self.largest:
            self.largest = largest
            if not self.clashes:
                self.at = self.elements + int(numpy.abs(difference).argmax())
        if self.ulps is not None:
            found = ulps(a, b, self.dtype)
            self.ulps = None if found is None else max(self.ulps, found)

    def measure(self, shape: Index) -> Measure:
        """The measures of all chunks."""
        size = math.prod(shape)
        each = self.elements // size if size else 1  # elements to a number: two of a complex one
        root, both = math.sqrt(max(size, 1)), self.reference * self.other
        return Measure(
            size=size,
            relative=math.inf if self.clashes else _ratio(self.difference, self.reference),
            rms=math.inf if self.clashes else self.difference / root,
            largest=math.inf if self.clashes else self.largest, at=_index(self.at, each, shape),
            cosine=max(-1.0, min(1.0, self.dot / both)) if both and math.isfinite(both) else None,
            ulps=self.ulps, differing=self.differing, first=_index(self.first, each, shape), clashes=self.clashes,
            reference_rms=self.reference / root, reference_largest=self.reference_largest,
        )  # fmt: skip


def _overflown(infinite: Any, mask: Any, dtype: str) -> Any:
    """Is one -Inf because its dtype does not hold the other's number of a mask?"""
    return (infinite == -numpy.inf) & (mask < min(MASK, -LARGEST.get(dtype, numpy.inf)))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.inf if part else 0.0


def _index(flat: int | None, each: int, shape: Index) -> Index | None:
    return None if flat is None else tuple(map(int, numpy.unravel_index(flat // each, shape)))


def top(values: Any) -> float:
    """The largest magnitude; NaN where there is one."""
    return max(-float(values.min()), float(values.max()))


def norm_of(values: Any) -> float:
    """The root of the sum of squares of a row."""
    largest = top(values)
    low, high = EASY[values.dtype]
    if low < largest < high:
        return math.sqrt(float(numpy.dot(values, values)))
    scaled = values.astype(numpy.float64) / (largest or 1.0)
    return largest * math.sqrt(float(numpy.dot(scaled, scaled)))


INTEGERS = {"float64": numpy.int64, "complex128": numpy.int64, "float32": numpy.int32, "complex64": numpy.int32,
            "float16": numpy.int16, "bfloat16": numpy.int16}  # fmt: skip
"""Floating dtypes, and the integers of their size: read as these, positive numbers lie in their own order."""


def ulps(a: Any, b: Any, dtype: str) -> int | None:
    """The largest distance of two finite elements, counted in numbers of this dtype; None for another dtype.

    >>> ulps(numpy.array([1.0, 0.0]), numpy.array([1.0 + 2**-22, -0.0]), "float32")
    2
    """
    kind = INTEGERS.get(dtype)
    if kind is None:
        return None
    first, second = _bits(a, dtype, kind), _bits(b, dtype, kind)
    lowest = -(2 ** (8 * first.itemsize - 1))
    if not ((first ^ second) < 0).any():  # of one sign: the distance fits
        distance = first - second
        return max(int(distance.max()), -int(distance.min()))
    wide = [numpy.where(bits < 0, lowest - bits.astype(numpy.float64), bits) for bits in (first, second)]
    return int(numpy.abs(wide[0] - wide[1]).max())


def _bits(values: Any, dtype: str, kind: Any) -> Any:
    if dtype == "bfloat16":
        bits = values.astype(numpy.float32, copy=False).view(numpy.uint32)
        rounded = (bits >> 16) + ((bits >> 15) & 1)  # half is rounded up, which is no further than to even
        return rounded.astype(numpy.uint16).view(numpy.int16)
    names = {"complex128": "float64", "complex64": "float32"}
    with numpy.errstate(over="ignore"):
        return values.astype(names.get(dtype, dtype), copy=False).view(kind)
