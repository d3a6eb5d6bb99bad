"""Finds values that were copied without a recorded operation, such as batches from a table, by comparing bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

import numpy

from backprobe.record.entries import Entry

Array = numpy.ndarray[Any, Any]
MOST = 1_000_000
"""The largest number of elements of a value that is compared."""


def with_copied(
    direct: Sequence[tuple[int, ...]], entries: Sequence[Entry], bad: Set[int], numbers: Callable[[int], Any]
) -> Sequence[tuple[int, ...]]:
    """Return the sources of each entry, with added sources for bad entries that have no bad source.

    The added sources are earlier bad entries from which rows were copied. An entry with an expression, an operation or
    an incoming edge, or without a line, is not compared, because two lines may compute the same numbers independently.
    """
    found = list(direct)
    for at in sorted(bad):
        if not (_is_spelled(entries[at]) or bad & {*direct[at]}):
            before = ((one, numbers(one)) for one in sorted(bad, reverse=True) if one < at)
            found[at] += tuple(copied_of(numbers(at), before))
    return found


def copied_of(copy: Any, before: Iterable[tuple[int, Any]]) -> list[int]:
    """Return the number of the first array of ``before`` that contains, bit for bit, all rows of ``copy``.

    If no array does, return the numbers of arrays that together contain its rows with NaN or Inf. Empty if there are
    none.

    >>> table = numpy.array([[1.0, numpy.nan], [2.0, 3.0]])
    >>> copied_of(table[::-1], [(4, table)]), copied_of(table, [(4, table + 1), (3, table[0])])
    ([4], [3])
    """
    copy = _array(copy)
    if copy is None or not numpy.isfinite(copy).any():  # two arrays of only NaN are equal without being copies
        return []
    arrays = [(at, one) for at, one in ((at, _array(one)) for at, one in before) if one is not None]
    for rows in (copy, copy[None]):
        every, left = _rows(rows, rows.shape[1:]), {one.tobytes() for one in rows if not numpy.isfinite(one).all()}
        for at, one in arrays:
            if every <= _rows(one, rows.shape[1:]):
                return [at]
        found = []
        for at, one in arrays if all(numpy.isfinite(row).any() for row in rows) else ():
            if left & (known := _rows(one, rows.shape[1:])):
                found.append(at)
                left -= known
        if found and not left:
            return found
    return []


def _array(numbers: Any) -> Array | None:
    array = None if numbers is None else numpy.asarray(numbers)
    is_plain = array is not None and array.dtype.kind in "fc" and array.ndim and 0 < array.size <= MOST
    return array if is_plain else None


def _rows(array: Array, shape: tuple[int, ...]) -> set[bytes]:
    # The bytes of the array if it has this shape, or of each row if the rows have this shape.
    if array.shape == shape:
        return {array.tobytes()}
    return {one.tobytes() for one in array} if array.shape[1:] == shape else set()


def _is_spelled(entry: Entry) -> bool:
    return bool(entry.inputs or entry.op) or entry.source is None or bool(entry.source.expression)
