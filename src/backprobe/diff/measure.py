"""The distance of an array from its reference, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

Index = tuple[int, ...]

MANY = {
    "float64": 1 << 53,
    "complex128": 1 << 53,
    "float32": 1 << 24,
    "complex64": 1 << 24,
    "float16": 1 << 11,
    "bfloat16": 1 << 8,
}
"""Number of steps of each dtype above which two numbers have different signs, or one is at least twice the other."""


@dataclass(frozen=True)
class Measure:
    """The distance of an array from the reference, an array of the same shape.

    ``relative`` is the norm of the difference divided by that of the reference; ``rms`` and ``largest`` are the root
    mean square and the largest magnitude of the difference, and ``at`` is where it is largest. ``ulps`` is the largest
    distance of two elements, in steps of the coarser dtype; distances above ``MANY`` count as ``MANY``. It is None
    unless that dtype is a floating one of at least two bytes. ``differing`` counts the unequal elements; ``first`` is
    the index of the first one in memory order. ``clashes`` counts elements of which only one is finite, or that are
    infinities of opposite sign: then the errors are infinite.
    """

    size: int
    relative: float
    rms: float
    largest: float
    at: Index | None
    cosine: float | None
    ulps: int | None
    differing: int
    first: Index | None
    clashes: int
    reference_rms: float
    reference_largest: float
