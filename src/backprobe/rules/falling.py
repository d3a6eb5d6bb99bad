"""A loss that falls without bound, as with a wrong sign: the lower it gets, the larger its gradient becomes.

A loss that has a minimum has smaller gradients close to it. This also holds from batch to batch, so a few steps are
enough to tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.correlation import surely
from backprobe.rules.rule import RULES
from backprobe.rules.window import Matrix, RunRows, Steps, Window

LEAST, MOST = 12, 400  # the first and the last step at which a loss is examined, counted from the first step of the run
MORE = 10  # the growing window is examined again after it has grown by 1/10
# the threshold of the correlation, and the number of standard errors by which the loss must fall
TIED, SURE = RULES["falling_loss"].threshold, 2.5
VARIES = 1e-4  # the norms of a value's gradient are used if they vary by more than this share of their mean
REMEDY = "the sign of the loss: an optimizer makes it as small as it can"


class Falling:
    """Examines every logged loss while it is negative. Needs gradients."""

    def __init__(self, rows: RunRows) -> None:
        self.falls: dict[str, Falls] = {}

    def look(self, window: Window) -> None:
        for name, (steps, numbers) in window.losses.items():
            self.falls.setdefault(name, Falls()).look(window, name, steps, numbers)

    def alerts(self) -> Iterator[Alert]:
        for one in self.falls.values():
            yield from one.found


class Falls:
    """One loss: its numbers so far, and the norms of the gradients in the same steps."""

    def __init__(self) -> None:
        self.found: list[Alert] = []
        self.judged, self.is_over = 0, False
        self.steps: list[int] = []
        self.loss = numpy.empty(0)
        self.norms: Matrix | None = None  # for each module's return value, the norm of its gradient: rows × steps
        self.total = numpy.empty(0)  # the norm of the gradients of all parameters together; NaN if there are none
        self.next_end = LEAST

    def look(self, window: Window, name: str, steps: Steps, numbers: Matrix) -> None:
        if self.is_over or len(numbers) == self.judged:
            return
        new = slice(self.judged, MOST)
        steps, numbers = steps[new], numbers[new]
        self.judged += len(numbers)
        ends = numpy.flatnonzero(~(numbers < 0))
        self.is_over = bool(len(ends)) or self.judged == MOST
        numbers = numbers[: ends[0]] if len(ends) else numbers
        _, here, there = numpy.intersect1d(window.steps, steps[: len(numbers)], return_indices=True)
        if not len(here):
            return
        self._take(window, here)
        self.steps += window.steps[here].tolist()
        self.loss = numpy.append(self.loss, numbers[there])
        self._judge(name)

    def _take(self, window: Window, here: Any) -> None:
        norms = window.wide(window.gradients.norm)[:, here] if window.gradients else numpy.zeros((0, len(here)))
        self.norms = norms if self.norms is None else numpy.concatenate([self.norms, norms], axis=1)
        used = window.used
        total = window.wide(numpy.sqrt(used.column("squares").sum(axis=0)))[here] if used else numpy.nan + here
        self.total = numpy.append(self.total, total)

    def _judge(self, name: str) -> None:
        # Examine the growing window until it is certain that the loss falls without bound, or until no steps are left.
        while self.next_end <= len(self.loss) and not self.found:
            end = self.next_end
            self.next_end += 1 + end // MORE
            loss = self.loss[:end]
            first, second = loss[: end // 2], loss[end // 2 :]
            error = numpy.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
            size = self._size(end) if first.mean() - second.mean() > SURE * error else None
            if size is not None:
                tied = max(_correlation(loss, size), _correlation(numpy.diff(loss), numpy.diff(size)))
                if -surely(-tied, end - 1) < TIED:
                    headline = (
                        "'{name}' falls without bound: the lower it is, the larger is its gradient "
                        "(correlation {number})"
                    )
                    seen = [Sighting(self.steps[end - 1], name, tied)]
                    self.found, self.is_over = alert("falling_loss", seen, "logged", headline, REMEDY), True

    def _size(self, end: int) -> Matrix | None:
        # The norm of the gradient at the last returned value whose gradient varies; else that of all parameters
        # together; None if that is not finite in some step, or 0 in all.
        for one in self.norms[::-1, :end] if self.norms is not None else ():
            if numpy.isfinite(one).all() and one.std() > VARIES * one.mean():
                return numpy.asarray(one)
        total: Matrix = self.total[:end]
        return total if numpy.isfinite(total).all() and total.any() else None


def _correlation(first: Matrix, second: Matrix) -> float:
    with numpy.errstate(all="ignore"):
        return float(numpy.nan_to_num(numpy.corrcoef(first, second)[0, 1]))
