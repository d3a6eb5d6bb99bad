"""Finite differences along a line: the slope of a function, how well it is known, and whether there is a kink.

Central differences with ever smaller steps are extrapolated to a step of zero, each output by itself, and the table of
the extrapolation shows how far it can be trusted: C. J. F. Ridders, Advances in Engineering Software 4 (1982) 75;
Numerical Recipes 5.7. The same is done with the difference between the slopes to both sides, which is zero where the
function has a derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

LEVELS = 12  # the last step is 2048 times smaller than the first
SETTLED = 1e-10  # of each slope: more is not asked for
JITTERS = 4  # of the last steps: how far their differences scatter is noise, for what is cut off is smallest there
TRUSTED = 10  # an estimate of an error may itself be off by chance; this often, and no more
POINTS = 7  # next to each other, at which rounding is measured
ROUNDED = 4  # roundings of an output, each at most its epsilon


@dataclass(frozen=True)
class Slope:
    """The slope of each output along the line, the error it may have, and whether it is the same to both sides."""

    value: Any
    error: Any
    is_kinked: Any


class LimitAtZero:
    """The limit of values known at steps h, h/2, h/4, ... that have an expansion in h**first, h**(first+2), ...

    ``value`` is infinite in ``error`` where the limit is unknown: where there was no finite value, or too few.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.row: list[Any] = []
        self.value: Any = 0.0
        self.error: Any = numpy.inf
        self.step: Any = numpy.inf  # at which each was found

    def add(self, found: Any, step: float, rounding: Any) -> None:
        """The values at the next step, and how far they are rounded."""
        coarser, self.row = self.row, [found]
        for column, before in enumerate(coarser):
            last = self.row[-1]
            better = last + (last - before) / (2 ** (self.first + 2 * column) - 1)
            change = numpy.maximum(numpy.maximum(abs(better - last), abs(better - before)), rounding)
            is_best = change < self.error  # never where the change is not a number
            self.value = numpy.where(is_best, better, self.value)
            self.error = numpy.where(is_best, change, self.error)
            self.step = numpy.where(is_best, step, self.step)
            self.row.append(better)


def scatter(moved: Callable[[float], Any], step: float) -> Any:
    """The rounding of each output: what is left of its third differences along points that lie next to each other.

    It is that of the terms of a sum, which may be much larger than the sum is.

    >>> float(scatter(lambda t: numpy.array([1e8 + t - 1e8]), 2.0**-26 / 3)[0]) > 1e-9
    True
    """
    with numpy.errstate(all="ignore"):
        found = numpy.diff([moved(at * step) for at in range(POINTS)], 3, axis=0)
        return numpy.nan_to_num(numpy.sqrt(numpy.square(found).mean(axis=0) / 20), posinf=0.0)  # 1 + 9 + 9 + 1


def slope(moved: Callable[[float], Any], at_rest: Any, widest: float, epsilon: float, scatter: Any = 0.0) -> Slope:
    """The slope at 0 of a function from a number to an array of them, whose rounding is ``epsilon``.

    ``at_rest`` is its value at 0, ``widest`` the first step, ``scatter`` how far each output was seen to be rounded.

    >>> found = slope(lambda t: numpy.array([numpy.exp(t), abs(t)]), numpy.array([1.0, 0.0]), 2.0**-8, 2.0**-52)
    >>> float(found.value[0].round(9)), bool(found.error[0] < 1e-9), found.is_kinked.tolist()
    (1.0, True, [False, True])
    """
    central, gap, jitters = LimitAtZero(2), LimitAtZero(1), []
    step, before = widest, numpy.nan
    with numpy.errstate(all="ignore"):
        for _ in range(LEVELS):
            ahead, behind = moved(step), moved(-step)
            found = (ahead - behind) / (2 * step)
            rounding = ROUNDED * numpy.maximum(epsilon * numpy.maximum(abs(ahead), abs(behind)), scatter) / step
            central.add(found, step, rounding)
            gap.add((ahead - 2 * at_rest + behind) / step, step, rounding)
            jitters.append(abs(found - before) * step)
            if (central.error <= numpy.maximum(SETTLED * abs(central.value), ROUNDED * rounding)).all():
                break
            before, step = found, step / 2
        else:
            jitter = numpy.sqrt(numpy.mean(numpy.square(jitters[-JITTERS:]), axis=0))
            for limit in (central, gap):
                limit.error = numpy.fmax(limit.error, jitter / limit.step)
        is_kinked = abs(gap.value) > TRUSTED * (gap.error + central.error)
    return Slope(*(numpy.broadcast_to(found, at_rest.shape) for found in (central.value, central.error, is_kinked)))
