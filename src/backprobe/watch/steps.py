"""The steps of a training: the current one, which steps are measured, and the rows of a step as they arrive."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy

from backprobe.backends.watches import StepListener
from backprobe.record.exponents import Exponents, merged_exponents
from backprobe.record.gaps import GapCode
from backprobe.record.source import Source
from backprobe.record.statistics import Row, measured, merged, scaled
from backprobe.storage.runs.layout import IS_OPEN, Matrix, Missing, NewRows, RowKey, StepData, blank
from backprobe.watch.background import WaitingStep

LOGGED = "logged"
SCALE = "loss scale"
"""The name under which the scale of a ``GradScaler`` is logged."""
FEW, MANY, MORE = 8, 20, 4
"""It is assumed that nothing ends a step if its backward passes are more than ``MORE`` times as many as those of any
earlier step, and at least ``FEW``; or if there are ``MANY`` before any step has ended. In a step without backward
passes, calls of ``log`` are counted instead.
"""
Fetch = Callable[[Mapping[int, Any]], Callable[[], Mapping[int, Row]]]


@dataclass
class Open:
    """The contents of a step so far: rows by their places, and rows that a device is still computing."""

    step: int
    rows: dict[int, Row] = field(default_factory=dict)
    exponents: dict[int, Exponents] = field(default_factory=dict)
    later: dict[int, list[Any]] = field(default_factory=dict)
    columns_later: list[tuple[Sequence[int], Callable[[], Matrix]]] = field(default_factory=list)
    counted_later: dict[int, list[Callable[[], Exponents]]] = field(default_factory=dict)
    backwards: int = 0
    logs: int = 0
    gaps: list[Missing] | None = None
    skipped: int = 0
    scale: float = 1.0
    uncleared: int = 0
    has_stepped: bool = False  # has any optimizer stepped in this step?
    ended: float = 0.0

    @property
    def is_empty(self) -> bool:
        return not (self.rows or self.later or self.columns_later or self.skipped) and self.gaps is None

    @property
    def places(self) -> set[int]:
        """The places that have numbers, or will have them when the device has finished."""
        return {*self.rows, *self.later}.union(*[places for places, _ in self.columns_later])


class CountedSteps(StepListener):
    """Counts the steps of one attempt. A step is passed on when the next one begins; until then, numbers can be logged
    for it.
    """

    def __init__(self, every: int, histogram: int, put: Callable[[WaitingStep], None], fetch: Fetch) -> None:
        self.every, self.histogram, self.put, self.fetch = every, histogram, put, fetch
        self.process = os.getpid()
        self.places: dict[tuple[str, str], int] = {}
        self.scaled: set[int] = set()  # places of gradients that contain the loss scale as a factor
        self.new = NewRows()
        self.lines: dict[str, Source] = {}
        self.first, self.current = 0, Open(0)
        self.ended: Open | None = None
        self.has_begun = self.was_called = False
        self.is_stopped = False
        self.most = 0, 0  # the largest numbers of backward passes and of calls of ``log`` in a step so far
        self.is_measured, self.is_counted = True, False

    def start(self, first: int) -> None:
        """Start with this number for the first step."""
        self.first = first
        self._open(first)

    def _open(self, step: int) -> None:
        self.current, self.is_measured = Open(step), step % self.every == 0
        self.is_counted = self.is_measured and self.histogram > 0 and step % self.histogram == 0

    def place(self, name: str, kind: str, *, is_replicated: bool = False, is_scaled: bool = False) -> int:
        key = name, kind
        if key not in self.places:
            self.places[key] = len(self.places)
            if is_scaled:
                self.scaled.add(self.places[key])
            self.new.rows.append(RowKey(name, kind, "once" if is_replicated else "sum"))
        return self.places[key]

    def alias(self, alias: str, name: str) -> None:
        self.new.aliases[alias] = name

    def line(self, name: str, line: Source) -> None:
        if name not in self.lines:
            self.lines[name] = self.new.lines[name] = line

    def begin(self) -> None:
        if not self.has_begun:
            self.has_begun = self.was_called = True
            self.hand_on()

    def passed(self) -> None:
        self.begin()
        self.current.backwards += 1

    def stepped(self) -> None:
        self.current.has_stepped = True

    def add(self, place: int, row: Any, replaces: bool = False) -> None:
        _add(self.current, place, row, replaces)

    def add_columns(self, places: Sequence[int], columns: Callable[[], Matrix]) -> None:
        self.current.columns_later.append((places, columns))

    def count(self, place: int, exponents: Exponents | Callable[[], Exponents], replaces: bool = False) -> None:
        if not isinstance(exponents, Exponents):
            self.current.counted_later.setdefault(place, []).append(exponents)
            return
        before = None if replaces else self.current.exponents.get(place)
        self.current.exponents[place] = exponents if before is None else merged_exponents(before, exponents)

    def leave_out(self, place: int) -> None:
        now = self.current
        now.rows.pop(place, None)
        now.later.pop(place, None)
        now.exponents.pop(place, None)
        now.counted_later.pop(place, None)

    def missing(self) -> list[tuple[str, str]]:
        there = self.current
        if len(there.rows) + len(there.later) >= len(self.places):
            return []
        known = there.places
        return [key for key, place in self.places.items() if place not in known and key[1] != LOGGED]

    def has(self, name: str, kind: str) -> bool:
        return (name, kind) in self.places

    def gaps(self, found: list[tuple[str, str, GapCode]]) -> None:
        self.current.gaps = [(name, kind, code.value) for name, kind, code in found]

    def log(self, name: str, row: Any) -> None:
        """Log a number of the program for the current step, or, between two steps, for the step that has just ended."""
        into = self.current if self.has_begun or self.ended is None else self.ended
        into.logs += 1
        _add(into, self.place(name, LOGGED), row)

    def end(self, *, skipped: int = False, scale: float = 1.0, uncleared: int = 0) -> None:
        if self.is_stopped or os.getpid() != self.process:  # a child of this process has no writer
            return
        self.hand_on()
        self.current.skipped, self.current.scale, self.current.ended = skipped, scale, time.time()
        self.current.uncleared = uncleared
        if scale != 1.0 and self.is_measured:
            _add(self.current, self.place(SCALE, LOGGED), measured(numpy.array([scale])))
        self.ended, self.has_begun = self.current, False
        self._open(self.current.step + 1)

    def hand_on(self) -> None:
        """Pass on the step that ended last. Nothing is added to it afterwards."""
        if os.getpid() != self.process:
            return
        ended, self.ended = self.ended, None
        if ended is None or ended.is_empty:
            return
        self.most = max(self.most[0], ended.backwards), max(self.most[1], ended.logs)
        new, self.new = self.new, NewRows()
        later = self.fetch(ended.later) if ended.later else dict
        height, unscaled = len(self.places), frozenset(self.scaled if ended.scale != 1.0 else ())
        self.put(WaitingStep(lambda: _data(ended, later(), height, unscaled), new))

    def stop(self) -> None:
        """Stop receiving numbers. Passes on the last step that ended. Also ends and passes on the current one, if an
        optimizer has stepped in it, or if so many backward passes have run in it that nothing seems to end a step.
        """
        if self.is_stopped:
            return
        self.hand_on()
        if self.current.has_stepped:  # some of several optimizers have stepped, but not the one that ends a step
            self.end()
            self.hand_on()
        elif self._is_left_open():
            self.end(skipped=IS_OPEN)
            self.hand_on()
        self.is_stopped, self.is_measured = True, False

    def _is_left_open(self) -> bool:
        # Has the current step run far more backward passes than any earlier one? Without backward passes, calls of
        # ``log`` are counted.
        found = self.current.backwards, self.current.logs
        has_ended, at = self.most != (0, 0), 0 if self.current.backwards else 1
        least = FEW if has_ended else MANY
        return self.has_begun and found[at] >= max(least, MORE * self.most[at] + 1)


def _add(into: Open, place: int, row: Any, replaces: bool = False) -> None:
    if not isinstance(row, tuple):
        held = into.later.setdefault(place, [])
        if replaces:
            held.clear()
        held.append(row)
        return
    before = None if replaces else into.rows.get(place)
    into.rows[place] = row if before is None else merged(before, row)


def _data(step: Open, later: Mapping[int, Row], height: int, unscaled: frozenset[int]) -> StepData:
    # The data of a step in the form that is written.
    rows = dict(step.rows)
    for place, row in later.items():
        rows[place] = merged(rows[place], row) if place in rows else row
    matrix = blank(height)
    if rows:
        made = [scaled(row, 1 / step.scale) if place in unscaled else row for place, row in rows.items()]
        matrix[:, list(rows)] = numpy.array(made).T
    for places, columns in step.columns_later:
        _merge(matrix, places, columns())
    for place, held in step.counted_later.items():
        step.exponents[place] = reduce(merged_exponents, [one() for one in held])
    exponents = _unscaled(step, unscaled)
    return StepData(step.step, matrix, step.ended, step.backwards, step.skipped, exponents, step.gaps, step.uncleared)


def _merge(matrix: Matrix, places: Sequence[int], columns: Matrix) -> None:
    # Merge the columns of many places, as ``merged`` does for single rows.
    at: Any = slice(places.start, places.stop) if isinstance(places, range) else places
    matrix[:8, at] += columns[:8]
    matrix[8, at] = numpy.minimum(matrix[8, at], columns[8])
    matrix[9, at] = numpy.maximum(matrix[9, at], columns[9])


def _unscaled(step: Open, places: frozenset[int]) -> Mapping[int, Exponents]:
    # The histograms of a step. The loss scale is divided out of those of scaled gradients; these are left out if the
    # scale is not a power of two.
    mantissa, exponent = math.frexp(step.scale)
    if mantissa != 0.5:
        return {place: one for place, one in step.exponents.items() if place not in places}
    return {place: one.shifted(1 - exponent) if place in places else one for place, one in step.exponents.items()}
