"""The distance of two numbers in units in the last place, which are the steps of a dtype between them."""

from __future__ import annotations

from typing import Any

import numpy

from backprobe.diff.measure import MANY

INTEGERS = {
    "float64": numpy.int64,
    "complex128": numpy.int64,
    "float32": numpy.int32,
    "complex64": numpy.int32,
    "float16": numpy.int16,
    "bfloat16": numpy.int16,
}
"""For each dtype, the integer type of the same size.

Positive numbers keep their order if their bits are read as such.
"""
PARTS = {"complex128": "float64", "complex64": "float32"}


def ulps(a: Any, b: Any, dtype: str) -> int | None:
    """The largest distance of two finite elements in steps of this dtype; None for an unsupported dtype.

    Distances above ``MANY`` count as ``MANY``.

    >>> ulps(numpy.array([1.0, 0.0]), numpy.array([1.0 + 2**-22, -0.0]), "float32")
    2
    """
    return distance(bits(a, dtype), bits(b, dtype), dtype) if dtype in INTEGERS else None


def distance(a: Any, b: Any, dtype: str) -> int:
    """The largest distance of two numbers in steps of this dtype, given the integers with the same bits."""
    if int((a ^ b).min()) < 0:  # the numbers have opposite signs
        opposite = (a ^ b) < 0
        zero = numpy.iinfo(a.dtype).min  # the bits of -0
        apart = (a[opposite] & ~zero).astype(numpy.float64) + (b[opposite] & ~zero)
        largest = int(apart.max())
        if largest >= MANY[dtype]:
            return MANY[dtype]
        a, b = numpy.where(opposite, 0, a), numpy.where(opposite, 0, b)
    else:
        largest = 0
    found = a - b
    return min(MANY[dtype], max(largest, int(found.max()), -int(found.min())))


def bits(values: Any, dtype: str) -> Any:
    """The bits of numbers in this dtype, as integers."""
    if dtype == "bfloat16":
        wide = values.astype(numpy.float32, copy=False).view(numpy.uint32)
        # Ties are rounded up, which is no further from the number than rounding to even.
        half = (wide + numpy.uint32(0x8000)) >> 16
        return half.astype(numpy.uint16).view(numpy.int16)
    with numpy.errstate(over="ignore"):
        return values.astype(PARTS.get(dtype, dtype), copy=False).view(INTEGERS[dtype])
