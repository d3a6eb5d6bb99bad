"""Windows of a run for the rules: some steps as matrices of names × steps, and all numbers logged so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray

from backprobe.record.statistics import COLUMNS, columns_for, statistic
from backprobe.rules.alert import Alert, Sighting
from backprobe.storage.runs.chosen_rows import regular_places
from backprobe.storage.runs.merged import LOGGED, RunReader

BACK = 40  # earlier steps that a window includes before the new ones; no rule looks further back
SCALE = "loss scale"
FEW, PART, SMALL = 8, 32, 64
"""If at most ``FEW`` rows or 1/``PART`` of all rows are needed, only these are read; otherwise all. A run with up to
``SMALL`` rows is always read as a whole.
"""
Matrix = NDArray[numpy.float64]
Mask = NDArray[numpy.bool_]
Steps = NDArray[numpy.int64]
Logged = Mapping[str, tuple[Steps, Matrix]]


class RunRows:
    """The rows of a run, grouped by kind, and by whether they belong to parameters."""

    def __init__(self, reader: RunReader) -> None:
        self.reader = reader
        every = list(reader.rows().values())
        own = reader.parameters()
        self.measured = [row for row in every if row.kind != LOGGED]
        self.logged = [row for row in every if row.kind == LOGGED]
        self.all = self.measured + self.logged
        self.keys = [(row.name, row.kind) for row in self.all]
        self.groups: dict[tuple[str, bool], list[int]] = {}
        for place, row in enumerate(self.measured):
            self.groups.setdefault((row.kind, row.name in own), []).append(place)

    def fact(self, name: str) -> list[str]:
        """A stored fact about the last start of the training: names of parameters."""
        attempts = self.reader.attempts()
        found: Any = attempts[-1].facts.get(name, []) if attempts else []
        return [str(one) for one in found]


@dataclass(frozen=True, eq=False)
class WindowPart:
    """The steps from one place to another, of any kind. Each column is read once."""

    rows: RunRows
    low: int
    high: int
    held: dict[str, Matrix] = field(default_factory=dict)
    held_of: dict[tuple[str, bytes], Matrix] = field(default_factory=dict)  # columns of some rows only

    def column(self, name: str) -> Matrix:
        """A column of all rows, the logged ones last: rows × steps, or rows × 1 if no step differs from another."""
        if name not in self.held:
            rows, keys, reader = self.rows.all, self.rows.keys, self.rows.reader
            if reader.is_of_many:  # each file is opened once for all columns
                self.held.update(reader.narrow_of_all(rows, keys, COLUMNS, self.low, self.high))
            else:
                self.held[name] = reader.narrow(rows, keys, name, self.low, self.high)
        return self.held[name]

    def of(self, places: Any, name: str) -> Matrix:
        """The column with this name, but only for the rows at these places."""
        if not len(places):
            return numpy.empty((0, 1))
        count = len(self.rows.all)
        if name in self.held or len(places) > max(FEW, count // PART) or count <= SMALL:
            return numpy.asarray(self.column(name)[regular_places(places)])
        which = name, numpy.asarray(places).tobytes()
        if which not in self.held_of:
            rows, keys = ([every[at] for at in places] for every in (self.rows.all, self.rows.keys))
            self.held_of[which] = self.rows.reader.narrow(rows, keys, name, self.low, self.high)
        return self.held_of[which]


@dataclass(frozen=True, eq=False)
class Window:
    """Some steps of a part of a run, given by their places ``kept``. Those from ``fresh`` on are new; up to ``BACK``
    earlier ones come before.

    ``first`` is the number of steps before the window. ``logged`` has all numbers logged up to the end of the window.
    ``whole`` is the same window with the steps that a scaler skipped, in which only gradients may be infinite, and with
    only the numbers logged in new steps. ``begins`` is the number of the run's first step that was neither skipped nor
    left open. ``open`` holds the new steps that no optimizer had finished, each with its number of backwards.
    ``uncleared`` counts by step the parameters whose gradients were added to those of the step before. If optimizers
    take turns, each with its own backward pass, no single loss measures progress.
    """

    part: WindowPart
    kept: Steps
    steps: Steps
    fresh: int
    first: int
    logged: Logged
    uncleared: Steps
    whole: Window | None = None
    begins: int | None = None
    open: Sequence[tuple[int, int]] = ()
    takes_turns: bool = False

    @property
    def end(self) -> int:
        """The number of steps from the beginning of the run to the end of the window."""
        return self.first + len(self.steps)

    def table(self, kind: str, own: bool) -> Table:
        """The rows of a kind: rows of parameters if ``own`` is true, otherwise rows of the values that modules
        return, and of locals.
        """
        return Table(self, numpy.array(self.part.rows.groups.get((kind, own), []), int))

    @cached_property
    def values(self) -> Table:
        return self.table("value", own=False)

    @cached_property
    def gradients(self) -> Table:
        """The gradients of the values: of what modules return, and of locals."""
        return self.table("grad", own=False)

    @cached_property
    def used(self) -> Table:
        """The parameters' gradients."""
        return self.table("grad", own=True)

    @cached_property
    def parameters(self) -> Table:
        return self.table("param", own=True)

    @cached_property
    def updates(self) -> Table:
        return self.table("update", own=True)

    @cached_property
    def losses(self) -> Logged:
        """Everything that was logged as a loss, by name."""
        return {name: one for name, one in self.logged.items() if "loss" in name.lower() and name != SCALE}

    @cached_property
    def loss(self) -> tuple[str, Steps, Matrix] | None:
        """The loss: the numbers logged as ``loss``, or under the only logged name that contains ``loss``; else None."""
        name = loss_of(self.logged)
        return None if name is None else (name, *self.logged[name])

    @cached_property
    def loss_by_step(self) -> Matrix:
        """The loss in each step; NaN if it is not known."""
        found = numpy.full(len(self.steps), numpy.nan)
        if self.loss is not None and len(self.loss[1]):
            _, steps, numbers = self.loss
            at = numpy.minimum(numpy.searchsorted(steps, self.steps), len(steps) - 1)
            is_known = steps[at] == self.steps
            found[is_known] = numbers[at[is_known]]
        return found

    def free(self) -> None:
        """Drop the tables, which refer back to the window. This breaks the cycle, so memory is freed immediately
        instead of by the garbage collector.
        """
        for name, one in vars(Window).items():
            if isinstance(one, cached_property):
                vars(self).pop(name, None)

    def new(self, numbers: Any) -> Any:
        """The columns of a matrix for the new steps."""
        return numbers if numbers.shape[1] == 1 else numbers[:, self.fresh :]

    def wide(self, mask: Any) -> Any:
        """A mask with a column for each step. The given mask may have a single column for all steps."""
        return numpy.broadcast_to(mask, (*mask.shape[:-1], len(self.steps)))


def loss_of(logged: Mapping[str, Any]) -> str | None:
    """The name of the loss among the logged names: ``loss``, or the only one that contains this word; else None."""
    names = [name for name in logged if "loss" in name.lower() and name != SCALE]
    return "loss" if "loss" in names else names[0] if len(names) == 1 else None


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of one kind of numbers, in the order in which the model ran: ``names`` × ``steps``.

    Its matrices have a single column if all steps are equal. Such a matrix broadcasts; ``Window.wide`` gives it a
    column for each step.
    """

    window: Window
    places: NDArray[numpy.int64]

    def __bool__(self) -> bool:
        return len(self.places) > 0

    @cached_property
    def names(self) -> list[str]:
        return [self.window.part.rows.measured[at].name for at in self.places]

    def column(self, name: str) -> Matrix:
        """A column as stored. If a name has no numbers in a step, it holds the values of an empty row."""
        found = self.window.part.of(self.places, name)
        is_all = len(self.window.kept) == self.window.part.high - self.window.part.low
        return found if found.shape[1] == 1 or is_all else found[:, self.window.kept]

    def __getitem__(self, name: str) -> Matrix:
        """A statistic or column; NaN if a name has no numbers in a step."""
        return statistic(name, {column: self.column(column) for column in columns_for([name])})

    @property
    def is_there(self) -> Mask:
        there: Mask = self.column("count") > 0
        return there

    @property
    def norm(self) -> Matrix:
        """The Euclidean norm. Unlike the rms, it is not diluted by positions over which a pooling averages."""
        return numpy.sqrt(self["squares"])

    @property
    def is_nonfinite(self) -> Mask:
        found: Mask = self.column("count") != self.column("finite")
        return found

    def part(self, names: Sequence[str]) -> Table:
        known = {name: at for at, name in enumerate(self.names)}
        return self.some([known[name] for name in names])

    def some(self, rows: Any) -> Table:
        """Some of the rows, by number."""
        return Table(self.window, self.places[numpy.asarray(rows, int)])


class OneAlert:
    """A rule that finds a single alert, in ``found``."""

    def __init__(self, rows: RunRows) -> None:
        self.found: list[Alert] = []

    def alerts(self) -> Iterator[Alert]:
        yield from self.found


class Firsts:
    """Finds for each name the first step at which a condition held, over all windows so far."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, Sighting]] = {}

    def look(self, table: Table, rows: Any, mask: Mask, numbers: Any = 0.0) -> None:
        """Add a condition for some rows of a table × the steps of its window, and the numbers that show it."""
        window = table.window
        numbers = numpy.broadcast_to(numbers, mask.shape)
        fresh = mask[:, window.fresh :]
        for at in numpy.flatnonzero(fresh.any(axis=1)).tolist():
            row = int(rows[at])
            if table.names[row] not in self.seen:
                when = window.fresh + int(fresh[at].argmax())
                one = Sighting(int(window.steps[when]), table.names[row], float(numbers[at, when]))
                self.seen[table.names[row]] = row, one

    @property
    def all(self) -> list[Sighting]:
        """The sightings in the order of the rows."""
        return [one for _, one in sorted(self.seen.values(), key=lambda each: each[0])]


def lasting(mask: Mask, count: int) -> Mask:
    """The steps at which a condition has held for ``count`` successive steps. Steps are the last axis.

    >>> lasting(numpy.array([[True, True, True, False, True]]), 2).astype(int).tolist()
    [[0, 1, 1, 0, 0]]
    """
    found = mask.copy()
    for back in range(1, count):
        found[..., back:] &= mask[..., :-back]
    found[..., : count - 1] = False
    return found


def first_of(window: Window, mask: Mask) -> int | None:
    """The place of the first new step in which a condition holds; None if it holds in none."""
    fresh = mask[window.fresh :]
    return window.fresh + int(fresh.argmax()) if fresh.any() else None
