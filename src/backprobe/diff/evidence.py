"""Tells if two values that differ are one value in another layout: by what is computed from them."""

from __future__ import annotations

from collections.abc import Set

from backprobe.diff.comparison import Comparison
from backprobe.diff.pairs import Row


def is_one(comparison: Comparison, at: int, uses: Set[int], wrong: Set[int]) -> bool | None:
    """Are the values of a pair one value, as far as its ``uses`` show? ``wrong`` are the uses that do not agree.

    None if nothing shows it: each wrong use is also computed from a parameter that differs, or no number depends on the
    value, as behind a scale that is zero at first. A layer whose weight is zero is an exception: the weight's gradient
    depends on what the layer is given.
    """
    if not uses:
        return False
    if wrong:
        return None if all(_has_other_reason(comparison, use, at) for use in wrong) else False
    if any(_is_single(comparison.rows[use]) for use in uses):
        return False
    if not _is_ignored(comparison, at, uses):
        return True
    beside = {one for use in uses for one in comparison.sources(use)} - {at, *uses}
    if any(comparison.rows[one].gradient.kind for one in beside):
        return False
    return True if any(_tells(comparison, one) for one in beside) else None


def _has_other_reason(comparison: Comparison, use: int, at: int) -> bool:
    # Is a value that differs also computed from an argument or a parameter that differs?
    others = comparison.sources(use) - {at, use}
    return any(comparison.is_leaf(one) and bool(comparison.rows[one].value.kind) for one in others)


def _is_single(row: Row) -> bool:
    # Is the value one number, such as a sum, which is the same in every order?
    return all(size == 1 for size in row.a.shape or ())


def _is_ignored(comparison: Comparison, at: int, uses: Set[int]) -> bool:
    # Does no use depend on a value: has each one number everywhere, or a gradient where the value has none?
    is_flat = all(_is_flat(comparison, use) for use in uses)
    return is_flat or (_is_zero(comparison, at) is True and any(_is_zero(comparison, use) is False for use in uses))


def _is_flat(comparison: Comparison, at: int) -> bool:
    read = comparison.read(at, comparison.held(at, "forward"))
    return read is not None and read[0].size > 0 and bool((read[0].array() == read[0].array().flat[0]).all())


def _is_zero(comparison: Comparison, at: int, direction: str = "backward") -> bool | None:
    # Are all numbers of a pair zero? None if they cannot be read.
    held = comparison.held(at, direction)
    read = None if any(one is None for one in held) else comparison.read(at, held)
    return None if read is None else not any(one.array().any() for one in read)


def _tells(comparison: Comparison, at: int) -> bool:
    # Is it a weight of zeros, whose gradient depends on what it is multiplied with, and agrees?
    row = comparison.rows[at]
    is_compared = row.gradient.measure is not None and not row.gradient.kind and not _is_single(row)
    return is_compared and _is_zero(comparison, at, "forward") is True and _is_zero(comparison, at) is False
