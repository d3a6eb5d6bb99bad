"""The least distance that weights have moved in a step, by the statistics of a run that has no updates."""

from __future__ import annotations

import numpy

from backprobe.rules.window import Matrix, Table, Window


def at_least(window: Window, weights: Table) -> Matrix:
    """For each weight and step, a lower bound of the sum of squares of the step's update; 0 where nothing is known.

    A weight w is its mean and the rest, which are orthogonal. So an update has at least the norm by which these two
    have changed: |u|² ≥ n·(Δ mean)² + (Δ |w - mean|)², by the reverse triangle inequality.
    """
    found = numpy.zeros((len(weights.names), len(window.steps)))
    with numpy.errstate(all="ignore"):
        count, total, squares = (window.wide(weights.column(name)) for name in ("count", "sum", "squares"))
        rest = numpy.sqrt(numpy.maximum(squares - total**2 / count, 0))
        moved = numpy.diff(total, axis=1) ** 2 / count[:, 1:] + numpy.diff(rest, axis=1) ** 2
    is_whole = window.wide(weights.is_there & ~weights.is_nonfinite)
    is_known = is_whole[:, 1:] & is_whole[:, :-1] & (count[:, 1:] == count[:, :-1])
    is_next = numpy.diff(window.steps) == 1
    found[:, 1:] = numpy.where(is_known & is_next & numpy.isfinite(moved), moved, 0)
    return found
