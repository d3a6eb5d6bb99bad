"""Moves numbers by one unit in the last place, for frameworks whose tensors become NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy


def moved(array: Any, seed: int | None, number: int) -> Any:
    """Return an array with each number moved up or down by one ulp. Numbers that are not finite, or would become
    infinite, are unchanged, and so is the whole array if ``seed`` is None.

    >>> float(moved(numpy.ones(1, numpy.float32), 0, 0)[0]) - 1 in (2**-23, -(2**-24))
    True
    """
    if seed is None:
        return array
    signs = numpy.random.default_rng((seed, number)).integers(0, 2, array.shape) * 2 - 1
    with numpy.errstate(over="ignore", invalid="ignore"):
        made = numpy.nextafter(array, (signs * numpy.inf).astype(array.dtype))
    return numpy.where(numpy.isfinite(array) & numpy.isfinite(made), made, array)
