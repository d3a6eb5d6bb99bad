"""Decides whether numbers are probabilities, within the tolerance of their dtype."""

from __future__ import annotations

from typing import Any

MOST = 1_000_000
"""The largest number of elements of an array that is examined."""
EXACT, HALF = 1e-4, 2e-2
"""The largest distance of a sum of probabilities from 1, in float32 or wider, and in 16-bit dtypes. See
docs/useless.md.
"""


SOME, WIDER = 64, 0x1FFF
"""The number of float32 elements that are tested for having been 16-bit numbers, and the bits that are 0 in such
elements.
"""
BY_CHANCE = 0.5
"""With the tolerance for 16 bits, many rows sum to 1 by chance. If fewer than this share of rows do, they are not
probabilities.
"""


def near(itemsize: int) -> float:
    """Return the tolerance for a dtype with this many bytes."""
    return EXACT if itemsize >= 4 else HALF


def near_of(x: Any) -> float:
    """Return the tolerance for a NumPy array. An array that was converted from 16 bits to float32 gets the tolerance of
    16 bits.

    >>> import numpy
    >>> near_of(numpy.array([0.1], "float32")), near_of(numpy.array([0.25], "float32")), near_of(numpy.array([0.1]))
    (0.0001, 0.02, 0.0001)
    """
    if x.dtype.name == "float32":
        first = x.reshape(-1)[:SOME].view("uint32")
        return EXACT if (first & WIDER).any() else HALF
    return near(x.itemsize)


def is_rarely(share: float, far: float) -> bool:
    """Is this share of normalised rows so small that it may have occurred by chance, with the tolerance ``far``?

    >>> is_rarely(0.1, EXACT), is_rarely(0.1, HALF)
    (False, True)
    """
    return share < BY_CHANCE if far > EXACT else not share


def axes(x: Any, far: float) -> list[int]:
    """Return the dimensions along which a NumPy array is a distribution, if they have at least two elements."""
    first = x.reshape(-1)[:64]
    if (first < 0).any() or (first > 1 + far).any() or (x < 0).any() or (x > 1 + far).any():
        return []
    numbers = x.astype("float64")
    return [axis for axis in range(x.ndim) if x.shape[axis] > 1 and (abs(numbers.sum(axis) - 1) <= far).all()]
