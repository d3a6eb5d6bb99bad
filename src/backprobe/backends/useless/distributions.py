"""Tells whether numbers are probabilities, within the tolerance of their dtype."""

from __future__ import annotations

from typing import Any

MOST = 1_000_000
"""The number of elements in the largest array that is examined."""
EXACT, HALF = 1e-4, 2e-2
"""How far a sum of probabilities may be from 1: in float32 or wider, and in 16 bits. See docs/useless.md."""


SOME, WIDER = 64, 0x1FFF
"""How many float32 elements are tested for having been 16-bit numbers, and the bits that are 0 in such elements."""
BY_CHANCE = 0.5
"""With the tolerance for 16 bits, many rows sum to 1 by chance. Below this share of rows, nothing is concluded."""


def near(itemsize: int) -> float:
    """The tolerance for a dtype with so many bytes."""
    return EXACT if itemsize >= 4 else HALF


def near_of(x: Any) -> float:
    """The tolerance for a NumPy array. An array that was converted from 16 bits to float32 gets that of 16 bits.

    >>> import numpy
    >>> near_of(numpy.array([0.1], "float32")), near_of(numpy.array([0.25], "float32")), near_of(numpy.array([0.1]))
    (0.0001, 0.02, 0.0001)
    """
    if x.dtype.name == "float32":
        first = x.reshape(-1)[:SOME].view("uint32")
        return EXACT if (first & WIDER).any() else HALF
    return near(x.itemsize)


def is_rarely(share: float, far: float) -> bool:
    """May this share of normalised rows have come about by chance, with the tolerance ``far``?

    >>> is_rarely(0.1, EXACT), is_rarely(0.1, HALF)
    (False, True)
    """
    return share < BY_CHANCE if far > EXACT else not share


def axes(x: Any, far: float) -> list[int]:
    """The dimensions, of at least two elements each, along which a NumPy array is a distribution."""
    first = x.reshape(-1)[:64]
    if (first < 0).any() or (first > 1 + far).any() or (x < 0).any() or (x > 1 + far).any():
        return []
    numbers = x.astype("float64")
    return [axis for axis in range(x.ndim) if x.shape[axis] > 1 and (abs(numbers.sum(axis) - 1) <= far).all()]
