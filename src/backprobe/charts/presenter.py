"""Entries in words and pictures, by the framework that their tensors belong to."""

from __future__ import annotations

from typing import Any

from backprobe.backends.discover import arrays_of
from backprobe.errors import BadOption
from backprobe.record.brief import brief
from backprobe.show import text


def describe(tensor: Any) -> str:
    """A tensor as the rows of tables have it."""
    arrays = arrays_of(tensor)
    return brief(tensor) if arrays is None else text.describe(tensor, arrays)


def plot(tensor: Any, heading: str, asked: str) -> Any:
    """A figure. Raises BadOption for what has no numbers."""
    from backprobe.charts import tensors  # which imports NumPy

    arrays = arrays_of(tensor)
    numbers = None if arrays is None else arrays.numbers(tensor)
    if numbers is None:
        raise BadOption(
            f"{heading} has no numbers that can be drawn",
            asked=asked,
            found=brief(tensor),
            next="rec.show(), for every value",
        )
    return tensors.plot(numbers, heading, asked)
