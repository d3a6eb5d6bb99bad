"""Statistics and a histogram of a tensor. A page contains these instead of the tensor."""

from __future__ import annotations

import math
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.record.brief import SMALL

BARS = 24
MOST_READ = 1 << 15
"""The most numbers that go into a histogram. From a larger tensor, this many evenly spaced numbers are taken."""


def statistics(tensor: Any, arrays: Arrays) -> dict[str, Any] | None:
    """The size, rms and largest magnitude of all numbers of a tensor, and a histogram of some of them.

    None if the numbers cannot be read, or if there are so few that they are shown in full.
    """
    summary = None if tensor is None else arrays.summary(tensor)
    if summary is None or summary.size <= SMALL:
        return None
    found: dict[str, Any] = {"size": summary.size, "rms": summary.rms, "largest": summary.largest}
    found["nonfinite"] = summary.nonfinite
    numbers = arrays.sample(tensor, MOST_READ)
    return found if numbers is None else found | _histogram(numbers)


def _histogram(numbers: Any) -> dict[str, Any]:
    # Bars of equal width from the smallest to the largest finite number. For complex numbers, magnitudes are counted.
    import numpy  # imported here, because the command line's help needs no NumPy

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
    if not math.isfinite(greatest - least):  # the range overflows
        return found
    width = (greatest - least) / BARS
    if not width > 0:  # all numbers are equal, or closer than a double can resolve
        return found
    at = ((numbers - least) / width).astype(int).clip(0, BARS - 1)
    return found | {"bars": numpy.bincount(at, minlength=BARS).tolist()}
