"""Finds the element of a result to which an element of an operand contributes, from the shapes of both."""

from __future__ import annotations

import itertools

Index = tuple[int, ...]


def result_of(at: Index, shape: Index, result: Index) -> Index | None:
    """The index of the result's element to which the operand's element ``at`` contributes; None if the shapes do not
    tell.

    >>> result_of((1, 2), (2, 3), (2, 3)), result_of((1, 2), (2, 3), (2,)), result_of((1, 2), (2, 3), (2, 1))
    ((1, 2), (1,), (1, 0))
    >>> result_of((1, 2), (3, 3), (3,)) is None
    True
    """
    if shape == result:
        return at
    if len(shape) == len(result) and all(size in (1, whole) for size, whole in zip(result, shape, strict=True)):
        return tuple(0 if size == 1 else one for one, size in zip(at, result, strict=True))
    left = itertools.combinations(range(len(shape)), len(result)) if len(result) < len(shape) else ()
    ways = [kept for kept in left if tuple(shape[axis] for axis in kept) == result]
    return tuple(at[axis] for axis in ways[0]) if len(ways) == 1 else None
