"""A lower bound of a correlation that may be due to chance, by Fisher's z transformation."""

from __future__ import annotations

from typing import Any

import numpy

ERRORS = 2.5  # a correlation is reduced by this number of standard errors


def surely(correlation: Any, count: Any) -> Any:
    """A correlation or cosine of ``count`` pairs of numbers, reduced by 2.5 standard errors of Fisher's z.

    >>> round(float(surely(0.9, 12)), 2), round(float(surely(0.9, 100)), 2)
    (0.56, 0.84)
    >>> float(surely(0.9, 3))
    -1.0
    """
    with numpy.errstate(all="ignore"):
        error = ERRORS / numpy.sqrt(numpy.maximum(numpy.asarray(count) - 3.0, 0.0))
        return numpy.tanh(numpy.arctanh(numpy.clip(correlation, -1 + 1e-12, 1 - 1e-12)) - error)
