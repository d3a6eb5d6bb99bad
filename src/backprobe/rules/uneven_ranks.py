"""A process whose gradients are several times as large as those of its peers, for most of the names they share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy
from numpy.typing import NDArray

from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.rule import RULES
from backprobe.rules.window import RunRows, Window

STEPS = 20
"""A process's size is its median over this many successive steps, so that a single large batch does not count."""
FEWEST = 4
"""The fewest processes that must have a name. With fewer processes it is unclear which one differs."""
OUTLYING = 3.5
"""The modified z-score above which Iglewicz and Hoaglin (1993) call a number an outlier."""
MAD = 0.6745  # converts a median absolute deviation into a standard deviation, for a normal distribution
TIMES = RULES["uneven_ranks"].threshold
MOST = 64  # the most names that are compared; of more names, this many at equal distances
REMEDY = "what differs on this process: its data, its share of the batch, how its loss is scaled"

Sizes = NDArray[numpy.float32]


class UnevenRanks:
    """Compares gradients of returned values between processes. Gradients of parameters are not used, because they are
    equal in all processes, or parts of one gradient.
    """

    def __init__(self, rows: RunRows) -> None:
        own = [rows.measured[at] for at in rows.groups.get(("grad", False), [])]
        keys = [(row.name, row.kind) for row in own if row.merge == "sum"]
        self.keys = keys[:: -(-len(keys) // MOST)] if keys else []
        self.left: dict[int, Sizes] = {}  # by process: names × steps that do not fill a whole stretch yet
        self.steps = numpy.empty(0, numpy.int64)  # the numbers of the steps in ``left``
        self.found: dict[int, Alert] = {}

    def look(self, window: Window) -> None:
        reader = window.part.rows.reader
        new = window.steps[window.fresh :]
        if len(reader.ranks) < FEWEST or not self.keys or not len(new):
            return
        steps = numpy.append(self.steps, new)
        whole = len(steps) // STEPS * STEPS
        left: dict[int, Sizes] = {}
        for rank in reader.ranks:
            every = numpy.full((len(self.keys), len(steps)), numpy.nan, numpy.float32)
            if rank in self.left:
                every[:, : len(self.steps)] = self.left[rank]
            left[rank] = every
        for rank, of, columns in reader.by_rank(self.keys, ("finite", "squares"), int(new[0]), int(new[-1])):
            at = numpy.searchsorted(steps, of)
            is_known = (at < len(steps)) & (steps[numpy.minimum(at, len(steps) - 1)] == of)
            rms = numpy.sqrt(columns["squares"] / columns["finite"])
            left[rank][:, at[is_known]] = rms[:, is_known]
        sizes = [_medians(every[:, :whole]) for every in left.values()]
        self.left, self.steps = {rank: every[:, whole:] for rank, every in left.items()}, steps[whole:]
        if whole:
            self._compare([*left], numpy.stack(sizes), steps[STEPS - 1 : whole : STEPS])

    def _compare(self, ranks: list[int], sizes: Sizes, steps: NDArray[Any]) -> None:
        # ``sizes`` is ranks × names × stretches, and ``steps`` the last step of each stretch.
        logs = numpy.where(sizes > 0, numpy.log(sizes), numpy.nan)
        median = _median(logs)
        score = MAD * (logs - median) / _median(numpy.abs(logs - median))
        is_there = numpy.isfinite(logs) & (numpy.isfinite(logs).sum(axis=0) >= FEWEST)
        is_larger = is_there & (score > OUTLYING) & (logs - median > numpy.log(TIMES))
        larger, there = is_larger.sum(axis=1), is_there.sum(axis=1)
        for at, stretch in zip(*numpy.nonzero((larger > 0) & (2 * larger >= there)), strict=True):
            which = is_larger[at, :, stretch]
            times = numpy.where(which, numpy.exp(logs - median)[at, :, stretch], numpy.nan)
            self._tell(ranks[at], int(steps[stretch]), times, int(there[at, stretch]), len(ranks))

    def _tell(self, rank: int, step: int, times: NDArray[Any], there: int, ranks: int) -> None:
        if rank in self.found and self.found[rank].step <= step:
            return
        name = self.keys[int(numpy.nanargmax(times))][0]
        number, larger = float(numpy.nanmedian(times)), int(numpy.isfinite(times).sum())
        headline = f"the gradients of rank {rank} are {{number}} x those of its peers"
        fact = f"in {larger} of {there} names, {ranks:,} processes compared over {STEPS} steps; the most in '{name}'"
        (one,) = alert("uneven_ranks", [Sighting(step, name, number)], "grad.rms", headline, REMEDY)
        self.found[rank] = replace(one, facts=(fact, *one.facts), ranks=(rank,))

    def alerts(self) -> Iterator[Alert]:
        yield from self.found.values()


def _medians(every: Sizes) -> Sizes:
    # The median of each stretch of steps; NaN if a rank has fewer than half of them.
    count = every.shape[1] // STEPS
    ordered = numpy.sort(every.reshape(len(every), count, STEPS), axis=2)  # NaN comes last
    there = numpy.isfinite(ordered).sum(axis=2)
    found = numpy.take_along_axis(ordered, numpy.maximum(there - 1, 0)[..., None] // 2, axis=2)[..., 0]
    return numpy.where(2 * there >= STEPS, found, numpy.nan).astype(numpy.float32)


def _median(numbers: NDArray[Any]) -> NDArray[Any]:
    # The median over those ranks that have a number; NaN if none has one.
    ordered = numpy.sort(numbers, axis=0)
    there = numpy.isfinite(ordered).sum(axis=0)
    low, high = numpy.maximum(there - 1, 0) // 2, there // 2
    high = numpy.minimum(high, len(ordered) - 1)
    pair = [numpy.take_along_axis(ordered, at[None], axis=0)[0] for at in (low, high)]
    middle: NDArray[Any] = (pair[0] + pair[1]) / 2
    return middle
