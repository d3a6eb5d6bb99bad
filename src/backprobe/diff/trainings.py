"""Two trainings side by side: for each name, the first step at which its statistics differ.

Errors of means and extremes are taken relative to the magnitude of the first run's numbers, because a mean may be close
to 0. Counts, and numbers of NaN and Inf, must be equal. For values logged several times in a step, by micro-batches or
processes, the mean is compared, as in ``run.series``. A name's floor may be measured by other runs of the first
training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from backprobe.record.statistics import columns_for, statistic
from backprobe.storage.runs.layout import RowKey
from backprobe.storage.runs.merged import LOGGED, RunReader, logged

FLOOR = 2.0**-11.5
"""The square root of eps of float32: a relative error that a single step cannot reach by rounding."""
MEASURED = 4
"""A measured floor is this multiple of the largest error so far, as for recordings."""
COUNTS = ("count", "nan", "posinf", "neginf")
STATISTICS = ("rms", "mean", "min", "max")
FIELDS = (*COUNTS, *STATISTICS, LOGGED)
MEASURABLE = (*STATISTICS, LOGGED)
TOGETHER = 64  # number of rows that are read together
KINDS = ("value", LOGGED, "grad", "grad_backward", "update", "param")
"""The kinds of numbers in the order in which a step computes them: gradients of modules before those of parameters."""


@dataclass(frozen=True)
class Pair:
    """Two matching rows of two runs: their names, and the kind of their numbers."""

    name: str
    other: str
    kind: str


@dataclass(frozen=True)
class RowParting:
    """The point from which two rows differ: the first step, the statistic, both numbers, and their error.

    ``excess`` is the error in units of the floor. ``before`` is the largest error of earlier steps in the same units,
    and ``later`` counts later steps that also differ.
    """

    pair: Pair
    step: int
    field: str
    numbers: tuple[float, float]
    error: float
    excess: float
    before: float
    later: int


@dataclass(frozen=True)
class ComparedRows:
    """One pair of rows, and its result: in how many steps both have numbers, the first of these steps, and where the
    rows begin to differ.

    ``only_one`` counts the steps in which only one run has numbers. ``times`` is the ratio of the second run's counts
    to the first's, if each process holds the whole value and counts it; else 1.
    """

    pair: Pair
    steps: int
    first: int
    only_one: int
    parting: RowParting | None
    times: float = 1.0


def paired(a: RunReader, b: RunReader, names: Mapping[str, str]) -> Sequence[Pair]:
    """Return the rows that both runs have, in the order in which a step computes them.

    ``names`` maps names of ``a`` to names of ``b``.
    """
    own, others = a.rows(), b.rows()
    found = [Pair(name, names[name], kind) for name, kind in own if (names.get(name), kind) in others]
    parameters = a.parameters()
    order = _execution(list(dict.fromkeys(name for name, _ in own)))

    def place(pair: Pair) -> tuple[int, bool, int]:
        is_backward = pair.kind in ("grad", "grad_backward")
        at = order[pair.name]
        return KINDS.index(pair.kind), is_backward and pair.name in parameters, -at if is_backward else at

    return sorted(found, key=place)


def _execution(names: Sequence[str]) -> Mapping[str, int]:
    # Return a model's names in the order of computation: each module after the modules inside it, and ``return`` last.
    found: list[str] = []
    waiting: list[str] = []
    for name in names:
        while waiting and not name.startswith(waiting[-1] + "."):
            found.append(waiting.pop())
        waiting.append(name)
    found += reversed(waiting)
    ordered = [one for one in found if one != "return"] + ["return"] * ("return" in found)
    return {name: at for at, name in enumerate(ordered)}


def compare(a: RunReader, b: RunReader, pairs: Sequence[Pair], noise: Sequence[RunReader]) -> list[ComparedRows]:
    """Compare all rows, a batch at a time."""
    found: list[ComparedRows] = []
    for at in range(0, len(pairs), TOGETHER):
        some = pairs[at : at + TOGETHER]
        first, second = (
            _read(reader, names)
            for reader, names in (
                (a, [(one.name, one.kind) for one in some]),
                (b, [(one.other, one.kind) for one in some]),
            )
        )
        floors = _floors(first, [_read(one, [(pair.name, pair.kind) for pair in some]) for one in noise])
        times = _times_counted(first, second, len(a.ranks), len(b.ranks))
        times[[pair.kind != "value" for pair in some]] = 1.0
        second = second.divided(times)
        errors, steps = _errors(first, second), first.shared(second)
        for nth, pair in enumerate(some):
            own = {field: numbers[nth] for field, numbers in errors.items()}
            floor = {field: of[nth] for field, of in floors.items()}
            row = _compared(pair, steps, own, floor, first, second, nth)
            found.append(replace(row, times=float(times[nth])))
    return found


@dataclass(frozen=True)
class _Numbers:
    # Statistics of several rows by field, as arrays of shape (rows, steps).
    steps: Any
    fields: Mapping[str, Any]

    def shared(self, other: _Numbers) -> Any:
        return numpy.intersect1d(self.steps, other.steps)

    def at(self, steps: Any) -> Mapping[str, Any]:
        places = numpy.searchsorted(self.steps, steps)
        return {field: numbers[:, places] for field, numbers in self.fields.items()}

    def divided(self, times: Any) -> _Numbers:
        # Return a copy in which the counts of each row are divided by a number.
        counts = {field: self.fields[field] / times[:, None] for field in COUNTS}
        return _Numbers(self.steps, {**self.fields, **counts})


def _read(reader: RunReader, rows: Iterable[tuple[str, str]]) -> _Numbers:
    known = reader.rows()
    keys = [known.get(key, RowKey(*key)) for key in rows]
    steps, columns = reader.columns(keys, [*dict.fromkeys([*columns_for([*COUNTS, *STATISTICS]), "finite", "sum"])])
    fields = {field: statistic(field, columns) for field in (*COUNTS, *STATISTICS)}
    return _Numbers(steps, {**fields, LOGGED: logged(columns)})


@numpy.errstate(all="ignore")
def _times_counted(first: _Numbers, second: _Numbers, ranks: int, other_ranks: int) -> Any:
    # Return for each row the ratio of the second run's counts to the first's, if it is the same in all steps and
    # explained by the number of processes; else 1. Processes that split a batch count each number once. Processes that
    # split a model may each hold a whole copy of some values.
    steps = first.shared(second)
    a, b = first.at(steps)["count"], second.at(steps)["count"]
    both = (a > 0) & (b > 0)
    found = numpy.ones(len(a))
    if ranks != other_ranks:
        for times in {float(other_ranks), 1 / ranks, other_ranks / ranks} - {1.0}:
            found[((b == times * a) | ~both).all(axis=1) & both.any(axis=1)] = times
    return found


@numpy.errstate(all="ignore")
def _errors(first: _Numbers, second: _Numbers) -> Mapping[str, Any]:
    # Return relative errors by field, of shape (rows, shared steps): NaN if one run has no numbers, infinite if counts
    # differ.
    steps = first.shared(second)
    a, b = first.at(steps), second.at(steps)
    size = numpy.fmax(numpy.abs(a["min"]), numpy.abs(a["max"]))
    both = (a["count"] > 0) & (b["count"] > 0)
    found = {}
    for field in FIELDS:
        scale = size if field in ("min", "max") else a["rms"]
        apart = numpy.abs(a[field] - b[field])
        if field == LOGGED:
            is_same = (a[field] == b[field]) | (numpy.isnan(a[field]) & numpy.isnan(b[field]))
            error = numpy.where(is_same, 0.0, numpy.where(numpy.isfinite(apart), apart / scale, math.inf))
        else:
            error = numpy.where(apart > 0, apart / scale if field in STATISTICS else math.inf, 0.0)
        found[field] = numpy.where(both, error, math.nan)
    return found


def _floors(first: _Numbers, others: Sequence[_Numbers]) -> Mapping[str, Any]:
    # The floor of each field, of shape (rows, steps of the first run). A measured floor holds from its step on.
    shape = first.fields["count"].shape
    floors = {field: numpy.full(shape, FLOOR if field in MEASURABLE else 0.0) for field in FIELDS}
    for other in others:
        errors, steps = _errors(first, other), first.shared(other)
        places = numpy.searchsorted(first.steps, steps)
        for field in MEASURABLE:
            found = numpy.zeros(shape)
            found[:, places] = numpy.nan_to_num(errors[field], nan=0.0, posinf=0.0)
            floors[field] = numpy.maximum(floors[field], MEASURED * numpy.maximum.accumulate(found, axis=1))
    return floors


@numpy.errstate(all="ignore")
def _compared(
    pair: Pair,
    steps: Any,
    errors: Mapping[str, Any],
    floors: Mapping[str, Any],
    first: _Numbers,
    second: _Numbers,
    nth: int,
) -> ComparedRows:
    fields = (LOGGED,) if pair.kind == LOGGED else (*COUNTS, *STATISTICS)
    places = numpy.searchsorted(first.steps, steps)
    found = numpy.stack([errors[field] for field in fields])
    floor = numpy.stack([floors[field][places] for field in fields])
    excess = numpy.where(found > 0, found / floor, 0.0)
    there = ~numpy.isnan(found[0])
    counts = [one.at(steps)["count"][nth] > 0 for one in (first, second)]
    beyond = (excess > 1).any(axis=0) & there
    parting = None
    if beyond.any():
        at = int(beyond.argmax())
        worst = int(numpy.nanargmax(numpy.nan_to_num(excess[:, at])))
        own = tuple(float(one.at(steps[at : at + 1])[fields[worst]][nth, 0]) for one in (first, second))
        before = float(excess[:, :at][:, there[:at]].max(initial=0.0))
        parting = RowParting(
            pair,
            int(steps[at]),
            fields[worst],
            (own[0], own[1]),
            float(found[worst, at]),
            float(excess[worst, at]),
            before,
            int(beyond.sum()) - 1,
        )
    begins = int(steps[there][0]) if there.any() else 0
    return ComparedRows(pair, int(there.sum()), begins, int((counts[0] != counts[1]).sum()), parting)
