"""Gradients that are never cleared: an identity between those of parameters and those of what their modules return.

The sum over the gradient of a bias is that over the gradient of what its module returned; so it is for the weight of an
embedding. Where the gradient of the step before is still in ``.grad``, that is added. Clipping and the average over
processes multiply all of it by one number, which is found from several parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy

from backprobe.rules.alert import Alert, Seen, alert
from backprobe.rules.window import Mask, Matrix, Rows, Window, first_of, lasting

CLOSE, NOISE = 1e-3, 1e-5  # of the largest of the sums; of a sum of as many numbers that do not cancel
LASTING = 3  # steps
REMEDY = "optimizer.zero_grad() before each backward()"
ENOUGH = 3  # parameters from which a common factor can be known


@dataclass(frozen=True)
class Sums:
    """Sums of gradients, parameters × steps: of the step before, of this one, and what came from the module."""

    before: Matrix
    now: Matrix
    new: Matrix
    noise: Matrix
    is_bias: Mask
    follows: Mask

    @property
    def close(self) -> Matrix:
        largest: Matrix = numpy.maximum(numpy.maximum(abs(self.before), abs(self.now)), abs(self.new))
        return self.noise + CLOSE * largest


class Accumulated:
    """Needs the gradients of parameters and of what their modules return."""

    def __init__(self, rows: Rows) -> None:
        self.found: list[Alert] = []

    def look(self, window: Window) -> None:
        modules = {name: at for at, name in enumerate(window.gradients.names)}
        names = [name for name in window.used.names if name.rpartition(".")[0] in modules]
        if self.found or not names or len(window.steps) < LASTING + 1:
            return
        sums = _read(window, names, [modules[name.rpartition(".")[0]] for name in names])
        one: Matrix = numpy.ones(sums.now.shape[1])
        with numpy.errstate(all="ignore"):
            found = [_adds_up(sums, one, one), _adds_up(sums, *_factors(sums))]
        held = [
            numpy.append(False, lasting(numpy.atleast_2d(is_sum.any(axis=0)), LASTING)[0]) for is_sum in found
        ]  # fmt: skip
        firsts = [first_of(window, one) for one in held]
        known = [at for at in firsts if at is not None]
        if known:
            chosen, at = firsts.index(min(known)), min(known) - 1
            row = int(found[chosen][:, at].argmax())
            number = float(sums.now[row, at] / sums.new[row, at])
            seen = [Seen(int(window.steps[at + 1]), names[row], number)]
            headline = "gradients add up from step to step: the sum at '{name}' is {number} times that of this step"
            self.found = alert("accumulated", seen, "grad.sum", headline, REMEDY)

    def alerts(self) -> Iterator[Alert]:
        yield from self.found


def _read(window: Window, names: list[str], places: list[int]) -> Sums:
    own = window.wide(window.used.part(names)["sum"])
    modules = window.gradients.some(places)
    came, size, count = (window.wide(modules[column]) for column in ("sum", "rms", "count"))
    noise = NOISE * size[:, 1:] * count[:, 1:]
    is_bias = numpy.array([name.endswith(".bias") for name in names])
    return Sums(own[:, :-1], own[:, 1:], came[:, 1:], noise, is_bias, numpy.diff(window.steps) == 1)


def _factors(sums: Sums) -> tuple[Matrix, Matrix]:
    # By what the gradients of all biases seem to be multiplied, if they add up and if they were cleared; else NaN.
    is_known = sums.is_bias[:, None] & (abs(sums.before) > 10 * sums.close) & (abs(sums.new) > 10 * sums.noise)
    is_enough = is_known.sum(axis=0) >= ENOUGH
    pair = []
    for wanted in (sums.new + sums.before, sums.new):
        known = numpy.where(is_known, sums.now / wanted, numpy.nan)
        factor = numpy.array([_middle(known[:, at]) for at in range(known.shape[1])])
        pair.append(numpy.where(is_enough & (factor > 0) & (factor <= 1 + CLOSE), factor, numpy.nan))
    return pair[0], pair[1]


def _middle(numbers: Matrix) -> float:
    # The median of those that are not NaN; NaN of none.
    known = numbers[~numpy.isnan(numbers)]
    return float(numpy.median(known)) if len(known) else math.nan


def _adds_up(sums: Sums, factor: Matrix, of_cleared: Matrix) -> Mask:
    # Which gradients are their own plus those of the step before; none, in steps in which most are not.
    is_sum = abs(sums.now - factor * (sums.new + sums.before)) <= sums.close
    is_clear = abs(sums.now - numpy.nan_to_num(of_cleared, nan=1.0) * sums.new) <= sums.close
    is_known = (abs(sums.before) > 10 * sums.close) & sums.follows
    is_sum &= is_known & ~is_clear
    others = is_known & (sums.is_bias[:, None] | is_clear)  # a weight may follow no such sum
    is_most = 2 * is_sum.sum(axis=0) > (is_sum | others).sum(axis=0)
    found: Mask = is_sum & is_most
    return found
