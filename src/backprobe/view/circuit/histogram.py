"""The numbers of a tensor in few words and bars: what a page keeps of it."""

from __future__ import annotations

import math
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.record.brief import SMALL

BARS = 24
MOST_READ = 1 << 15
"""Numbers that a histogram is made of; of a larger tensor so many, evenly spaced."""


def statistics(tensor: Any, arrays: Arrays) -> dict[str, Any] | None:
    """Of all numbers of a tensor the size, rms and largest magnitude, and of some the histogram.

    None where it holds no numbers that can be read, or so few that they are shown in full.
    """
    summary = None if tensor is None else arrays.summary(tensor)
    if summary is None or summary.size <= SMALL:
        return None
    found: dict[str, Any] = {"size": summary.size, "rms": summary.rms, "largest": summary.largest}
    found["nonfinite"] = summary.nonfinite
    numbers = arrays.sample(tensor, MOST_READ)
    return found if numbers is None else found | _histogram(numbers)


def _histogram(numbers: Any) -> dict[str, Any]:
    # Bars of equal width from the least to the greatest finite number; of complex ones, of their magnitudes.
    import numpy  # here, because the command line's help needs none

    read = numbers.size
    if numbers.dtype.kind == "c":
        numbers = numpy.abs(numbers)
    numbers = numbers[numpy.isfinite(numbers)]
    if not numbers.size:
        return {"read": read}
    least, greatest = float(numbers.min()), float(numbers.max())
    found = {
        "read": read,
        "least": least,
        "greatest": greatest,
        "median": float(numpy.median(numbers)),
        "zeros": int((numbers == 0).sum()),
    }
    if not math.isfinite(greatest - least):  # a range that is not a number itself
        return found
    width = (greatest - least) / BARS
    if not width > 0:  # all are equal, or differ by less than a double holds
        return found
    at = ((numbers - least) / width).astype(int).clip(0, BARS - 1)
    return found | {"bars": numpy.bincount(at, minlength=BARS).tolist()}
