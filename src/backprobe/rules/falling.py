"""A loss that falls without bound, as one with a wrong sign: the lower it is, the larger is its gradient.

A loss that has a minimum has smaller gradients the nearer it comes. That holds from batch to batch as well, and so a
few steps show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.history import History, Matrix
from backprobe.rules.rule import RULES

LEAST, MOST = 12, 400  # steps, from the first on
MORE = 10  # a growing window is looked at as it has grown by so much of it: 1/10
TIED, SURE = RULES["falling_loss"].threshold, 2.5  # a correlation; standard errors of the fall
VARIES = 1e-4  # of the mean gradient
REMEDY = "the sign of the loss: an optimizer makes it as small as it can"


def check(history: History) -> Iterator[Alert]:
    """Of each loss that is logged; needs gradients."""
    for name, (steps, numbers) in history.losses.items():
        count = numpy.flatnonzero(~(numbers < 0))
        _, here, there = numpy.intersect1d(history.steps, steps[: count[0] if len(count) else None][:MOST],
                                           return_indices=True)  # fmt: skip
        found = _falls(history, here, numbers[there]) if len(there) >= LEAST else None
        if found is not None:
            at, tied = found
            headline = (
                "'{name}' falls without bound: the lower it is, the larger is its gradient (correlation {number})"
            )
            seen = [Seen(int(steps[there[at]]), name, tied)]
            yield from alert("falling_loss", seen, "logged", headline, REMEDY)


def _falls(history: History, steps: Any, loss: Matrix) -> tuple[int, float] | None:
    # The first step in which it is sure, and the correlation there.
    end = LEAST
    while end <= len(loss):
        first, second = loss[: end // 2], loss[end // 2 : end]
        error = numpy.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
        if first.mean() - second.mean() > SURE * error:
            size = _size(history, steps[:end])
            if size is not None:
                tied = max(_correlation(loss[:end], size), _correlation(numpy.diff(loss[:end]), numpy.diff(size)))
                if tied < TIED:
                    return end - 1, tied
        end += 1 + end // MORE
    return None


def _size(history: History, steps: Any) -> Matrix | None:
    # The norm of the gradient at the last of what modules return that varies; else of all parameters' together.
    table = history.gradients
    norms = table.norm[:, steps] if table.rows else numpy.zeros((0, len(steps)))
    for one in norms[::-1]:
        if numpy.isfinite(one).all() and one.std() > VARIES * one.mean():
            return numpy.asarray(one)
    total: Matrix = numpy.sqrt(numpy.nansum(history.used["squares"][:, steps], axis=0)) if history.used.rows else norms
    return total if total.ndim == 1 and numpy.isfinite(total).all() and total.any() else None


def _correlation(first: Matrix, second: Matrix) -> float:
    with numpy.errstate(all="ignore"):
        return float(numpy.nan_to_num(numpy.corrcoef(first, second)[0, 1]))
