"""A lower bound for a correlation, given how much chance may have added: Fisher's z transformation."""

from __future__ import annotations

from typing import Any

import numpy

ERRORS = 2.5  # standard errors


def surely(correlation: Any, count: Any) -> Any:
    """A correlation, or a cosine, of so many pairs of numbers, less 2.5 standard errors of Fisher's z.

    >>> round(float(surely(0.9, 12)), 2), round(float(surely(0.9, 100)), 2)
    (0.56, 0.84)
    >>> float(surely(0.9, 3))
    -1.0
    """
    with numpy.errstate(all="ignore"):
        error = ERRORS / numpy.sqrt(numpy.maximum(numpy.asarray(count) - 3.0, 0.0))
        return numpy.tanh(numpy.arctanh(numpy.clip(correlation, -1 + 1e-12, 1 - 1e-12)) - error)
