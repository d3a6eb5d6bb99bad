"""The option ``axis=``: the axes of a value whose indices are treated separately. There may be one,
several, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backprobe.errors import BadOption
from backprobe.record.brief import written
from backprobe.record.options import Option

AXIS = Option(
    "axis",
    int | list | tuple,
    lambda given: all(type(one) is int for one in (given if isinstance(given, list | tuple) else [given])),
    "1",
    or_none=True,
    says="the number of an axis, or several",
)


def axes_of(axis: Any) -> tuple[int, ...]:
    """Return the axes that an option names.

    >>> axes_of(None), axes_of(-1), axes_of([0, 1])
    ((), (-1,), (0, 1))
    """
    if axis is None:
        return ()
    return tuple(axis) if isinstance(axis, list | tuple) else (axis,)


def from_the_first(axes: Sequence[int], shape: tuple[int, ...], name: str, asked: Any, why: str) -> list[int]:
    """Return these axes of a value, counted from its first axis. Raises BadOption if the value has no such axis, or if
    an axis is given twice.

    >>> from_the_first([-1], (2, 3), "u", -1, "")
    [1]
    """
    found = [axis + len(shape) * (axis < 0) for axis in axes]
    if not all(0 <= axis < len(shape) for axis in found) or len({*found}) < len(found):
        raise BadOption(
            f"{name!r} does not have these axes",
            asked=f"axis={written(asked)}",
            found=f"shape {shape}",
            why=why,
            next=f"an axis from 0 to {len(shape) - 1}" if shape else "values that have axes",
        )
    return found
