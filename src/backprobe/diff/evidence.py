"""Tells if two values that differ are one value in another layout: by what is computed from them."""

from __future__ import annotations

from collections.abc import Set

from backprobe.diff.comparison import Comparison
from backprobe.diff.pairs import Row


def is_one(comparison: Comparison, at: int, uses: Set[int], wrong: Set[int]) -> bool | None:
    """Are the values of a pair one value, as far as its ``uses`` show? ``wrong`` are the uses that do not agree.

    False if there are no uses. None if the uses do not show it: each wrong use is also computed from an argument or
    parameter that differs, or no use depends on the value, as behind a scale that is zero at first. But if a weight of
    zeros has a gradient that agrees, the values are one: this gradient depends on what the weight is multiplied with.
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
    # Does no use depend on the value? True if all elements of each use are equal, or if the value's gradient is zero
    # and that of a use is not.
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
    # Is the value zero everywhere, with a gradient that is not zero and agrees? That gradient depends on what the value
    # is multiplied with.
    row = comparison.rows[at]
    is_compared = row.gradient.measure is not None and not row.gradient.kind and not _is_single(row)
    return is_compared and _is_zero(comparison, at, "forward") is True and _is_zero(comparison, at) is False
