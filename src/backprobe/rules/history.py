"""The input of the rules: a run as matrices of names × steps, without the steps that a scaler skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray

from backprobe.record.gaps import GapCode
from backprobe.record.statistics import columns_for, statistic
from backprobe.storage.runs.layout import IS_OPEN, RowKey
from backprobe.storage.runs.merged import LOGGED, RunReader, logged

SCALE = "loss scale"
FRACTIONS = ("count", "finite", "nan", "posinf", "neginf", "sum")
Matrix = NDArray[numpy.float64]
Mask = NDArray[numpy.bool_]


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of one kind of numbers, in the order in which the model ran: ``names`` × ``steps``."""

    history: History
    rows: Sequence[RowKey]

    @cached_property
    def names(self) -> list[str]:
        return [row.name for row in self.rows]

    def __getitem__(self, name: str) -> Matrix:
        """A statistic or column; NaN where a name has no numbers in a step."""
        needed = columns_for([name])
        return statistic(name, self.history.read(self.rows, needed))

    @property
    def is_there(self) -> Mask:
        there: Mask = self["count"] > 0
        return there

    @property
    def norm(self) -> Matrix:
        """The Euclidean norm: unlike the rms it is not diluted by the positions that a pooling averages."""
        return numpy.sqrt(self["squares"])

    def part(self, names: Sequence[str]) -> Table:
        known = {row.name: row for row in self.rows}
        return Table(self.history, [known[name] for name in names])


class History:
    """One run, as far as ``until``: what a rule says of a step follows from that and those before alone."""

    def __init__(self, reader: RunReader, until: int | None = None, *, with_skipped: bool = False) -> None:
        self.reader, self.until = reader, until
        rows = list(reader.rows().values())
        self.own = reader.parameters()
        self.rows = rows
        info = reader.info()
        is_there = info["step"] <= (until if until is not None else numpy.inf)
        is_open = (info["skipped"] == IS_OPEN) & is_there
        self.open_steps: list[tuple[int, int]] = info[["step", "backwards"]][is_open].tolist()
        is_kept = (info["skipped"] <= (1 if with_skipped else 0)) & (
            info["step"] <= (until if until is not None else numpy.inf)
        )
        self.kept = numpy.flatnonzero(is_kept)
        self.all_steps = info["step"][self.kept]
        measured = [row for row in rows if row.kind != LOGGED]
        counts = self._columns(measured, ["count"])["count"][:, self.kept]
        is_measured = (counts > 0).any(axis=0)
        self.kept, self.steps = self.kept[is_measured], self.all_steps[is_measured]

    def _columns(self, rows: Sequence[RowKey], wanted: Sequence[str]) -> Mapping[str, Matrix]:
        return self.reader.columns(rows, wanted)[1]

    def read(self, rows: Sequence[RowKey], wanted: Sequence[str]) -> dict[str, Matrix]:
        return {name: numbers[:, self.kept] for name, numbers in self._columns(rows, wanted).items()}

    def table(self, kind: str, own: bool) -> Table:
        """The rows of a kind: of parameters (``own``), or of what modules return."""
        return Table(self, [row for row in self.rows if row.kind == kind and (row.name in self.own) == own])

    @cached_property
    def whole(self) -> History:
        """With the steps that a scaler skipped, whose gradients alone may be infinite by its doing."""
        return History(self.reader, self.until, with_skipped=True)

    @cached_property
    def values(self) -> Table:
        return self.table("value", own=False)

    @cached_property
    def gradients(self) -> Table:
        """Of what modules return."""
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
    def logged(self) -> dict[str, tuple[NDArray[numpy.int64], Matrix]]:
        """What the program logged, by name: the steps and the numbers."""
        rows = [row for row in self.rows if row.kind == LOGGED]
        steps, columns = self.reader.columns(rows, FRACTIONS)
        is_kept = numpy.isin(steps, self.all_steps)
        found = {}
        for at, row in enumerate(rows):
            own = {name: numbers[at] for name, numbers in columns.items()}
            there = is_kept & (own["count"] > 0)
            found[row.name] = steps[there], logged(own)[there]
        return found

    @cached_property
    def loss(self) -> tuple[str, NDArray[numpy.int64], Matrix] | None:
        """The loss: what was logged as ``loss``, or the only thing with that in its name."""
        names = list(self.losses)
        chosen = "loss" if "loss" in names else names[0] if len(names) == 1 else None
        return None if chosen is None else (chosen, *self.logged[chosen])

    @cached_property
    def losses(self) -> dict[str, tuple[NDArray[numpy.int64], Matrix]]:
        """All that was logged as a loss, by name."""
        return {name: one for name, one in self.logged.items() if "loss" in name.lower() and name != SCALE}

    def gaps(self, code: GapCode) -> dict[str, set[int]]:
        """By name, the steps in which it has no row for this reason."""
        found: dict[str, set[int]] = {}
        for step, name, _, said in self.reader.gaps():
            if said == code.value:
                found.setdefault(name, set()).add(step)
        return found

    def fact(self, name: str) -> list[str]:
        """What is known of the last start of the training: names of parameters."""
        attempts = self.reader.attempts()
        found: Any = attempts[-1].facts.get(name, []) if attempts else []
        return [str(one) for one in found]


def lasting(mask: Mask, count: int) -> Mask:
    """Where a condition has held for so many steps on end.

    >>> lasting(numpy.array([[True, True, True, False, True]]), 2).astype(int).tolist()
    [[0, 1, 1, 0, 0]]
    """
    found = mask.copy()
    for back in range(1, count):
        found[:, back:] &= mask[:, :-back]
    found[:, : count - 1] = False
    return found


def firsts(mask: Mask) -> list[tuple[int, int]]:
    """For each row in which a condition holds somewhere: the row, and the first such step."""
    return [(int(row), int(mask[row].argmax())) for row in numpy.flatnonzero(mask.any(axis=1))]
