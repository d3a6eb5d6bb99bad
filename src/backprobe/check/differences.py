"""Finite differences along a line: the slope of a function, its uncertainty, and whether there is a kink.

Central differences with ever smaller steps are extrapolated to a step of zero, for each output separately. The table of
the extrapolation shows how far to trust the result: C. J. F. Ridders, Advances in Engineering Software 4 (1982) 75;
Numerical Recipes 5.7. The difference between the slopes on both sides is extrapolated in the same way; it tends to zero
if the function has a derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

LEVELS = 12  # the last step is 2048 times smaller than the first
SETTLED = 1e-10  # relative error of a slope that is precise enough
JITTERS = 4  # the last steps, whose scatter is taken as noise, because the truncation error is smallest there
TRUSTED = 10  # factor by which an estimated error may be too small, by chance
POINTS = 7  # neighbouring points at which rounding is measured
ROUNDED = 4  # upper bound for the rounding error of an output, in units of epsilon


@dataclass(frozen=True)
class Slope:
    """The slope of each output along a line, its possible error, and whether the slopes on both sides differ."""

    value: Any
    error: Any
    is_kinked: Any


class LimitAtZero:
    """The limit of values at steps h, h/2, h/4, ... that can be expanded in h**first, h**(first+2), ...

    If the limit is unknown, because there were no or too few finite values, ``error`` is infinite.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.row: list[Any] = []
        self.value: Any = 0.0
        self.error: Any = numpy.inf
        self.step: Any = numpy.inf  # the step at which each limit was found

    def add(self, found: Any, step: float, rounding: Any) -> None:
        """Add the values at the next smaller step, with their rounding error."""
        coarser, self.row = self.row, [found]
        for column, before in enumerate(coarser):
            last = self.row[-1]
            better = last + (last - before) / (2 ** (self.first + 2 * column) - 1)
            change = numpy.maximum(numpy.maximum(abs(better - last), abs(better - before)), rounding)
            is_best = change < self.error  # false if the change is NaN
            self.value = numpy.where(is_best, better, self.value)
            self.error = numpy.where(is_best, change, self.error)
            self.step = numpy.where(is_best, step, self.step)
            self.row.append(better)


def scatter(moved: Callable[[float], Any], step: float) -> Any:
    """The rounding error of each output, estimated from third differences over neighbouring points.

    In a sum, it is the rounding of the terms, which may be much larger than the sum itself.

    >>> float(scatter(lambda t: numpy.array([1e8 + t - 1e8]), 2.0**-26 / 3)[0]) > 1e-9
    True
    """
    with numpy.errstate(all="ignore"):
        found = numpy.diff([moved(at * step) for at in range(POINTS)], 3, axis=0)
        # third differences have coefficients 1, 3, 3 and 1: the variance is 20 times that of one value
        return numpy.nan_to_num(numpy.sqrt(numpy.square(found).mean(axis=0) / 20), posinf=0.0)


def slope(moved: Callable[[float], Any], at_rest: Any, widest: float, epsilon: float, scatter: Any = 0.0) -> Slope:
    """The slope at 0 of a function from a number to an array, whose relative rounding error is ``epsilon``.

    ``at_rest`` is its value at 0, ``widest`` the first step, and ``scatter`` the observed rounding error of each
    output.

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
