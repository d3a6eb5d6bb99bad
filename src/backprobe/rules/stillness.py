"""Parameters that stay identical to the bit although they have gradients, and optimizers that do not step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy
from numpy.typing import NDArray

from backprobe.record.gaps import GapCode
from backprobe.rules.alert import Alert, Sighting, alert
from backprobe.rules.rule import RULES
from backprobe.rules.window import Firsts, Mask, RunRows, Table, Window

# parameters must stay identical for this number of successive steps: one parameter at the start, one parameter later,
# and all parameters later
SOON, LATE, MANY = 5, 20, 10
LONGER = 4  # a later stretch must be this many times as long as the longest stretch before it
ELSEWHERE = GapCode.REMOVED, GapCode.NOT_OPTIMIZED
"""The codes of gaps of a parameter that is no longer there, or that no watched optimizer has: no watched optimizer
should change it.
"""
CONSTANT = ("sum", "squares", "min", "max")
Lengths = NDArray[numpy.int64]
CONVERGED = RULES["zero_gradients"].threshold  # relative to the largest norm of all gradients so far
FAINT = 1e-3  # relative to the median gradient: a bias before a normalisation has a gradient of rounding errors only


class Stretches:
    """Counts successive steps in which a condition holds, for each of several rows, and keeps the longest
    earlier stretch.
    """

    def __init__(self, count: int) -> None:
        self.length, self.longest = numpy.zeros(count, int), numpy.zeros(count, int)

    def of(self, rows: Any, mask: Mask) -> tuple[Lengths, Lengths]:
        """Add steps for some rows, as rows × steps. Returns for each step the length so far and the longest earlier
        stretch.
        """
        length = _lengths(mask, self.length[rows])
        before = _before(length, self.length[rows], self.longest[rows])
        if mask.shape[1]:
            self.length[rows], self.longest[rows] = length[:, -1], before[:, -1]
        return length, before

    def end(self, rows: Any) -> None:
        """Record that the condition does not hold for these rows in this step."""
        self.longest[rows] = numpy.maximum(self.longest[rows], self.length[rows])
        self.length[rows] = 0

    def grow(self, count: int) -> None:
        more = numpy.zeros(count - len(self.length), int)
        self.length, self.longest = numpy.append(self.length, more), numpy.append(self.longest, more)


class Stillness:
    """Parameters that do not change, optimizers that do not step, and steps that no optimizer finishes."""

    def __init__(self, rows: RunRows) -> None:
        self.open: list[tuple[int, int]] = []
        self.unchanged, self.not_stepped = Unchanged(), NotStepped()

    def look(self, window: Window) -> None:
        self.open += window.open
        if window.fresh < len(window.steps):
            self.not_stepped.look(window)
            self.unchanged.look(window)

    def alerts(self) -> Iterator[Alert]:
        for step, backwards in self.open:
            headline = "no optimizer steps any more" if step else "no optimizer steps"
            said = f"{headline}: in its place {{number}} passes of backward() ran, and the step was open to the end"
            remedy = "optimizer.step() of each optimizer, and the condition under which it is called"
            seen = [Sighting(step, "", float(backwards))]
            yield from alert("no_step", seen, "backwards", said, remedy)
        yield from self.not_stepped.alerts()
        yield from self.unchanged.alerts()


class Unchanged:
    """Finds parameters that stay identical although they have gradients."""

    def __init__(self) -> None:
        self.names: list[str] | None = None
        self.found = Firsts()
        self.most = 0.0  # the largest sum of squares of all gradients so far

    def _begin(self, window: Window) -> None:
        known = set(window.used.names)
        self.names = [name for name in window.parameters.names if name in known]
        count = len(self.names)
        self.is_first = numpy.ones(count, bool)  # has the parameter stayed identical since the first step?
        self.felt = numpy.zeros(count, int)  # steps with a gradient since the parameter last changed
        self.own, self.together = Stretches(count), Stretches(1)

    def look(self, window: Window) -> None:
        if self.names is None:
            self._begin(window)
        if not self.names:
            return
        here = window.parameters.part(self.names)
        is_large, is_first_window = self._is_large(window), window.first + window.fresh == 0
        # most rows change in every step, so their sum of squares is compared first
        is_alike = _same(window, here, "squares")[:, window.fresh :].any(axis=1)
        rows = numpy.flatnonzero(is_alike | is_first_window)
        others = numpy.setdiff1d(numpy.arange(len(self.names)), rows)
        self.is_first[others] = False
        self.own.end(others)
        if not len(rows):
            self.together.end([0])
            return
        table = here.some(rows)
        same = numpy.logical_and.reduce([_same(window, table, column) for column in CONSTANT])[:, window.fresh :]
        is_felt = self._is_felt(window, is_large)[:, window.fresh :]
        self._judge(window, table, rows, same, is_felt)

    def _is_felt(self, window: Window, is_large: Mask) -> Mask:
        # In which steps does a parameter have a gradient that is large enough to matter?
        with numpy.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a step in which no parameter has a gradient
            least = FAINT * numpy.nanmedian(window.used["rms"], axis=0)
            found: Mask = window.wide(window.used.part(self.names or [])["rms"] > least) & is_large
        return found

    def _is_large(self, window: Window) -> Mask:
        # In which steps are gradients too large for a minimum? (At a minimum, rounding may absorb every update.)
        squares = numpy.nan_to_num(window.wide(window.used.column("squares").sum(axis=0)), posinf=0.0)
        most = numpy.maximum.accumulate(numpy.append(self.most, squares))[1:]
        self.most = float(most[-1])
        found: Mask = squares > CONVERGED**2 * most
        return found

    def _judge(self, window: Window, table: Table, rows: Any, same: Mask, is_felt: Mask) -> None:
        own = is_felt[rows]
        is_begin = (window.first + window.fresh + numpy.arange(same.shape[1])) == 0
        is_first = numpy.logical_and.accumulate(same | is_begin, axis=1) & self.is_first[rows][:, None]
        count = self.felt[rows][:, None] + own.cumsum(axis=1)
        felt = numpy.where(is_first, count, 0) > SOON
        self.is_first[rows], self.felt[rows] = is_first[:, -1], count[:, -1]
        length, before = self.own.of(rows, same & own)
        later = length >= numpy.maximum(LATE, LONGER * before)
        is_all = (same & own).sum(axis=0) >= numpy.maximum(is_felt.sum(axis=0), 1)
        together, together_before = self.together.of([0], is_all[None])
        of_all = (together >= numpy.maximum(MANY, LONGER * together_before)) & (length >= MANY)
        past = numpy.zeros((len(rows), window.fresh), bool)
        mask = numpy.concatenate([past, felt | later | of_all], axis=1)
        self.found.look(table, numpy.arange(len(rows)), mask)

    def alerts(self) -> Iterator[Alert]:
        known = {name: at for at, name in enumerate(self.names or [])}
        seen = sorted(self.found.all, key=lambda one: known[one.name])
        headline = "'{name}' does not change, though it has a gradient"
        if seen and len(seen) == len(known) and len({one.step for one in seen}) == 1:
            headline = "no parameter changes, though they have gradients: neither '{name}' nor another"
        remedy = (
            "the learning rate, also that of a schedule; whether optimizer.step() is called; or a dtype in which "
            "updates are lost to rounding"
        )
        yield from alert("unchanged", seen, "param.rms", headline, remedy)


class NotStepped:
    """Finds parameters whose optimizer does not step: they have no numbers after the first step, or a gap says that the
    optimizer did not step.
    """

    def __init__(self) -> None:
        self.names: list[str] | None = None
        self.found: dict[int, Sighting] = {}

    def look(self, window: Window) -> None:
        parameters, count = window.parameters, len(window.steps) - window.fresh
        if self.names is None:
            self.names = list(parameters.names)
            self.was_there, self.stretches = numpy.zeros(len(self.names), bool), Stretches(len(self.names))
        said = self._said(window)
        there = window.new(parameters.is_there) if parameters else numpy.zeros((0, 1), bool)
        there = numpy.broadcast_to(there, (len(there), count))
        if there.all() and not said and len(there) == len(self.names):
            self.was_there[:] = True
            self.stretches.end(slice(None))
            return
        lacking = numpy.zeros((len(self.names), count), bool)
        been = numpy.logical_or.accumulate(there, axis=1) | self.was_there[: len(there), None]
        lacking[: len(there)] = ~there & been
        self.was_there[: len(there)] = been[:, -1]
        for name, steps in said.items():
            at = self.names.index(name)
            if at >= len(there) or not been[at].any():
                lacking[at] |= numpy.isin(window.steps[window.fresh :], list(steps))
        for name, steps in self._gaps(window, *ELSEWHERE).items():
            if name in self.names:
                lacking[self.names.index(name)] &= ~numpy.isin(window.steps[window.fresh :], list(steps))
        length, before = self.stretches.of(slice(None), lacking)
        held = length >= numpy.maximum(LATE, LONGER * before)
        for row in numpy.flatnonzero(held.any(axis=1)).tolist():
            at = int(held[row].argmax())
            step = int(window.steps[window.fresh + at])
            self.found.setdefault(row, Sighting(step, self.names[row], float(length[row, at])))

    def _said(self, window: Window) -> dict[str, set[int]]:
        # The new steps in which an optimizer did not step, with the parameters that it would have changed.
        names, found = self.names if self.names is not None else [], self._gaps(window, GapCode.NOT_STEPPED)
        names += [name for name in found if name not in names]
        self.stretches.grow(len(names))
        self.was_there = numpy.append(self.was_there, numpy.zeros(len(names) - len(self.was_there), bool))
        return found

    @staticmethod
    def _gaps(window: Window, *codes: GapCode) -> dict[str, set[int]]:
        # The new steps with gaps of these kinds, by name.
        found: dict[str, set[int]] = {}
        low, high = (window.part.low + int(window.kept[at]) for at in (window.fresh, -1))
        for step, name, _, _ in window.part.rows.reader.gaps([code.value for code in codes], low, high + 1):
            found.setdefault(name, set()).add(step)
        return found

    def alerts(self) -> Iterator[Alert]:
        headline = "the optimizer of '{name}' does not step: it has not in {number} steps on end"
        remedy = "optimizer.step() of that optimizer, in each step"
        seen = [self.found[row] for row in sorted(self.found)]
        yield from alert("no_step", seen, "param.count", headline, remedy)


def _same(window: Window, table: Table, column: str) -> Mask:
    # The steps in which a column equals the column of the step before.
    numbers = table.column(column)
    found = numpy.zeros((len(numbers), len(window.steps)), bool)
    found[:, 1:] = True if numbers.shape[1] == 1 else numbers[:, 1:] == numbers[:, :-1]
    if len(numbers):
        found &= window.wide(table.is_there)
    return found


def _lengths(mask: Mask, start: Any = 0) -> Lengths:
    """The number of successive steps in which a condition has held. ``start`` is the number of such steps before, for
    each row.

    >>> _lengths(numpy.array([[True, True, False, True]])).tolist()
    [[1, 2, 0, 1]]
    >>> _lengths(numpy.array([[True, False]]), [3]).tolist()
    [[4, 0]]
    """
    at = numpy.arange(1, mask.shape[1] + 1)
    own = numpy.where(mask, at - numpy.maximum.accumulate(numpy.where(mask, 0, at), axis=1), 0)
    held = numpy.logical_and.accumulate(mask, axis=1)
    found: Lengths = own + numpy.where(held, numpy.broadcast_to(start, len(mask))[:, None], 0)
    return found


def _before(length: Lengths, start: Any = 0, longest: Any = 0) -> Lengths:
    """For each step, the longest stretch that had already ended.

    >>> _before(numpy.array([[1, 2, 0, 1, 2, 3, 0]])).tolist()
    [[0, 0, 2, 2, 2, 2, 3]]
    """
    previous = numpy.concatenate([numpy.broadcast_to(start, len(length))[:, None], length[:, :-1]], axis=1)
    ended = numpy.maximum.accumulate(numpy.where(length == 0, previous, 0), axis=1)
    found: Lengths = numpy.maximum(ended, numpy.broadcast_to(longest, len(length))[:, None])
    return found
