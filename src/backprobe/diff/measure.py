"""The distance of an array from its reference: plain data."""

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
"""By dtype: numbers that are further apart are of unlike signs, or one is at least twice the other."""


@dataclass(frozen=True)
class Measure:
    """How far the second of two arrays of one shape is from the first, the reference.

    ``relative`` is the norm of the difference by that of the reference, ``rms`` and ``largest`` are the root mean
    square and the largest magnitude of the difference, ``at`` where it is the largest. ``ulps`` is the largest distance
    of two elements in numbers of the coarser dtype from one to the other; ``MANY`` of that dtype stands for all that is
    more. It is None where the dtype is not a floating one of at least two bytes. ``differing`` counts the elements that
    are not equal, of which the first, in the order in which both lie in memory, is at ``first``. ``clashes`` counts
    those of which only one is finite, or that are infinities of unlike signs: then the errors are infinite.
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
