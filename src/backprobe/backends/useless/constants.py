"""Tests whether an operation has the same result for any input, such as softmax along a dimension of size 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

ROUNDED = 4
"""Results that differ by at most this many rounding units count as the same."""
TRIED = 16
"""The number of tests of an operation, just large enough that each element of an operand usually gets numbers of each
magnitude and sign.
"""


def is_constant(make: Callable[[Sequence[Any]], Any], shapes: Sequence[Sequence[int]], unit: float = 0.0) -> bool:
    """Is the result of an operation the same for all inputs that are tried? ``make`` takes arrays of these shapes, and
    returns an array of a dtype with this unit of rounding.

    >>> is_constant(lambda given: given[0] / given[0].sum(-1, keepdims=True), [(4, 1)])
    True
    >>> is_constant(lambda given: numpy.maximum(given[0], 500), [()])
    False
    """
    made = (
        numpy.asarray(make([_numbers(shape, at, place) for place, shape in enumerate(shapes)])) for at in range(TRIED)
    )
    return bool(shapes) and all(_is_same(one, first, unit) for first in [next(made)] for one in made)


def _is_same(one: Any, other: Any, unit: float) -> bool:
    return bool(one.shape == other.shape and (abs(one - other) <= ROUNDED * unit * abs(other)).all())


def _numbers(shape: Sequence[int], at: int, place: int) -> Any:
    # Return numbers of both signs with magnitudes from 0.001 to 20,000, because an operation may be flat only in some
    # ranges.
    count = int(numpy.prod(shape))
    step = (numpy.arange(count) + at * (2 * place + 1)) % TRIED
    drawn = numpy.random.default_rng([at, place]).uniform(1, 2, count)
    return (drawn * 10.0 ** (step // 2 - 3) * (1 - 2 * (step % 2))).reshape(shape)
