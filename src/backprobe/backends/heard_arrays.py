"""Finds operations that make NaN or Inf, using NumPy, in frameworks that report every operation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy

from backprobe.backends.heard_births import MOST, HeardBirth, lines_above


def birth(
    operation: str, operands: Sequence[tuple[str, Any]], result: Any, is_backward: bool = False
) -> HeardBirth | None:
    """Return the operation with its operands and result if the result is worse than all operands; None otherwise, and
    if one of the arrays has more than ``MOST`` elements.

    Inf is worse than finite numbers, and NaN is worse than Inf. The lines are those of the caller.

    >>> made = birth("div", [("x", numpy.ones(2)), ("y", numpy.zeros(2))], numpy.array([numpy.inf, numpy.inf]))
    >>> made.operation, birth("neg", [("x", made.result)], -made.result)
    ('div', None)
    """
    if result.size > MOST or any(one.size > MOST for _, one in operands):
        return None
    if badness(result) <= max((badness(one) for _, one in operands), default=0):
        return None
    return HeardBirth(operation, operands, result, lines_above(sys._getframe(1)), is_backward)


def badness(array: Any) -> int:
    """Return 0 if all numbers are finite, 2 if any is NaN, and 1 if any is infinite but none is NaN.

    >>> badness(numpy.array([1.0, numpy.inf])), badness(numpy.array([1, 2]))
    (1, 0)
    """
    if array.dtype.kind not in "fc" or numpy.isfinite(array).all():
        return 0
    return 2 if numpy.isnan(array).any() else 1
