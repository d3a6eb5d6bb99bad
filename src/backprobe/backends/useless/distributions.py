"""Numbers that are probabilities or log-probabilities, and the tolerance for this."""

from __future__ import annotations

from typing import Any

MOST = 1_000_000
"""The largest array that is examined, in elements."""
EXACT, HALF = 1e-4, 2e-2
"""How far the sum of probabilities may be from 1, in float32 and wider, and in 16 bits: see docs/useless.md."""


SOME, WIDER = 64, 0x1FFF
"""How many elements are examined to see if they were in 16 bits, and the digits of float32 that 16-bit numbers lack."""
BY_CHANCE = 0.5
"""In 16 bits many rows are that close to 1 by chance: if their share is below this, no distribution is meant."""


def near(itemsize: int) -> float:
    """The tolerance in a dtype of so many bytes."""
    return EXACT if itemsize >= 4 else HALF


def near_of(x: Any) -> float:
    """The same, of an array of NumPy; also where it was in 16 bits before, and is in float32 now.

    >>> import numpy
    >>> near_of(numpy.array([0.1], "float32")), near_of(numpy.array([0.25], "float32")), near_of(numpy.array([0.1]))
    (0.0001, 0.02, 0.0001)
    """
    if x.dtype.name == "float32":
        first = x.reshape(-1)[:SOME].view("uint32")
        return EXACT if (first & WIDER).any() else HALF
    return near(x.itemsize)


def is_rarely(share: float, far: float) -> bool:
    """Are so few rows normalised that it is by chance, where one may be so far from it?

    >>> is_rarely(0.1, EXACT), is_rarely(0.1, HALF)
    (False, True)
    """
    return share < BY_CHANCE if far > EXACT else not share


def axes(x: Any, far: float) -> list[int]:
    """The dimensions along which a NumPy array is a distribution, each with at least two elements."""
    first = x.reshape(-1)[:64]
    if (first < 0).any() or (first > 1 + far).any() or (x < 0).any() or (x > 1 + far).any():
        return []
    numbers = x.astype("float64")
    return [axis for axis in range(x.ndim) if x.shape[axis] > 1 and (abs(numbers.sum(axis) - 1) <= far).all()]
