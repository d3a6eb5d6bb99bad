"""Descriptions and pictures of tensors, with the help of the framework that they belong to."""

from __future__ import annotations

from typing import Any

from backprobe.backends.discover import arrays_of
from backprobe.errors import BadOption
from backprobe.record.brief import brief
from backprobe.show import text


def describe(tensor: Any) -> str:
    """Describe a tensor in a few words, as in a row of a table."""
    arrays = arrays_of(tensor)
    return brief(tensor) if arrays is None else text.describe(tensor, arrays)


def plot(tensor: Any, heading: str, asked: str) -> Any:
    """Return a figure of a tensor. Raises BadOption for an object that has no numbers."""
    from backprobe.charts import tensors  # imported late, because it imports NumPy

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
