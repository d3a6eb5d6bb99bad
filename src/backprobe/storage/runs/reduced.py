"""A field of a run in bins of steps: its smallest and largest number in each bin, and the number of nonfinite steps.

Only a few chunks are read at once, so memory grows with names and bins and not with steps. The columns of all ranks are
merged before a statistic is computed from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from backprobe.record.statistics import columns_for, statistic
from backprobe.storage.runs.layout import Matrix, RowKey
from backprobe.storage.runs.merged import LOGGED, NOT_FINITE, RATIO, RunReader, logged

Counts = NDArray[numpy.int64]
NUMBERS = 1 << 18  # numbers of a column that are read together


@dataclass(frozen=True)
class Binned:
    """A field of some names in bins of steps. All matrices are names × bins.

    ``first`` and ``last`` are the numbers of the first and last step of each bin. ``least`` and ``greatest`` are
    float32, and NaN if no step of the bin has a number. ``nonfinite`` counts, by kind of numbers, the steps in which
    some of a name's numbers were NaN or Inf. It has each kind with such a step, whatever the field.
    """

    names: Sequence[str]
    first: Counts
    last: Counts
    least: NDArray[numpy.float32]
    greatest: NDArray[numpy.float32]
    nonfinite: Mapping[str, Counts]


def binned(
    reader: RunReader, names: Sequence[str], field: str, bins: int, first: int | None = None, last: int | None = None
) -> Binned:
    """A field of these names in at most ``bins`` bins, from step ``first`` to ``last``, both included."""
    steps = reader.info()["step"]
    low = 0 if first is None else int(numpy.searchsorted(steps, first))
    high = len(steps) if last is None else int(numpy.searchsorted(steps, last, side="right"))
    count = min(bins, max(0, high - low))
    edges = low + numpy.arange(count + 1) * max(0, high - low) // max(1, count)
    found = _Found(len(names), edges)
    read = _Reading(reader, names, field)
    for start, stop in reader.stretches(low, high, max(1, NUMBERS // max(1, len(names)))) if names else ():
        found.add(start, stop, read)
    return Binned(names, steps[edges[:-1]], steps[edges[1:] - 1], found.least, found.greatest, found.nonfinite)


class _Reading:
    """The columns from which a field of some names is computed."""

    def __init__(self, reader: RunReader, names: Sequence[str], field: str) -> None:
        self.reader, self.names = reader, names
        known = reader.rows()
        self.kind, _, self.which = ("update", ".", "rms") if field == RATIO else field.rpartition(".")
        if field == LOGGED:
            self.kind = LOGGED
        self.is_ratio = field == RATIO
        self.keys = {kind: [(name, kind) for name in names] for kind in dict.fromkeys(kind for _, kind in known)}
        self.rows = {kind: [known.get(key, RowKey(*key)) for key in keys] for kind, keys in self.keys.items()}
        self.kinds = [kind for kind, keys in self.keys.items() if any(key in known for key in keys)]
        self.last: tuple[int, int] = 0, 0
        # columns that were already read, because counts are requested twice
        self.held: dict[tuple[str, str], Matrix] = {}

    def _columns(self, kind: str, wanted: Sequence[str], start: int, stop: int) -> dict[str, Matrix]:
        if kind not in self.rows:
            return {column: numpy.zeros((len(self.names), 1)) for column in wanted}
        if (start, stop) != self.last:
            self.last, self.held = (start, stop), {}
        return {column: self._column(kind, column, start, stop) for column in wanted}

    def _column(self, kind: str, column: str, start: int, stop: int) -> Matrix:
        if (kind, column) not in self.held:
            found = self.reader.narrow(self.rows[kind], self.keys[kind], column, start, stop)
            self.held[kind, column] = found
        return self.held[kind, column]

    def _logged(self, start: int, stop: int) -> Matrix:
        # The logged numbers. If all of them are finite, three columns need not be read.
        columns = self._columns(LOGGED, ("count", "finite", "sum"), start, stop)
        if (columns["finite"] == columns["count"]).all():
            columns |= dict.fromkeys(NOT_FINITE, numpy.zeros((1, 1)))
        else:
            columns |= self._columns(LOGGED, NOT_FINITE, start, stop)
        return numpy.asarray(logged(columns))

    def extremes(self, start: int, stop: int, cuts: Counts) -> tuple[Matrix, Matrix]:
        """The minimum and maximum of the field in each bin of steps: names × bins, or names × 1 if it is constant.

        A bin begins at one index in ``cuts`` and ends at the next one.
        """
        if self.kind == LOGGED:
            return _extremes(self._logged(start, stop), cuts)
        columns = self._columns(self.kind, columns_for([self.which]), start, stop)
        if self.which == "rms" and not self.is_ratio and columns["finite"].shape[1] == 1:
            # Find the extremes before taking the square root, which does not change their order. The root is then
            # computed for fewer numbers.
            ends = _extremes(columns["squares"], cuts)
            least, greatest = (statistic("rms", {**columns, "squares": one}) for one in ends)
            return numpy.asarray(least), numpy.asarray(greatest)
        found = numpy.asarray(statistic(self.which, columns))
        if self.is_ratio:
            with numpy.errstate(all="ignore"):
                found = found / statistic("rms", self._columns("param", columns_for(["rms"]), start, stop))
        return _extremes(found, cuts)

    def nonfinite(self, start: int, stop: int) -> Iterator[tuple[str, NDArray[numpy.bool_]]]:
        """For each kind, the steps in which some of a name's numbers are not finite."""
        for kind in self.kinds:
            part = self._columns(kind, ("count", "finite"), start, stop)
            is_so = part["finite"] < part["count"]
            if is_so.any():
                yield kind, is_so


class _Found:
    """The results so far, in the bins between ``edges``."""

    def __init__(self, height: int, edges: Counts) -> None:
        self.edges, self.shape = edges, (height, len(edges) - 1)
        self.least, self.greatest = (numpy.full(self.shape, numpy.nan, numpy.float32) for _ in range(2))
        self.nonfinite: dict[str, Counts] = {}

    def add(self, start: int, stop: int, read: _Reading) -> None:
        """Add the steps from place ``start`` to ``stop`` to the bins in which they lie."""
        begin = int(numpy.searchsorted(self.edges, start, side="right")) - 1
        cuts = numpy.maximum(self.edges[begin:-1], start)
        cuts = cuts[cuts < stop] - start
        to, widths = slice(begin, begin + len(cuts)), numpy.diff(numpy.append(cuts, stop - start))
        least, greatest = read.extremes(start, stop, cuts)
        with numpy.errstate(over="ignore"):
            self.least[:, to] = numpy.fmin(self.least[:, to], least.astype(numpy.float32))
            self.greatest[:, to] = numpy.fmax(self.greatest[:, to], greatest.astype(numpy.float32))
        for kind, is_so in read.nonfinite(start, stop):
            total = self.nonfinite.setdefault(kind, numpy.zeros(self.shape, numpy.int64))
            total[:, to] += (
                is_so * widths if is_so.shape[1] == 1 else numpy.add.reduceat(is_so.astype(numpy.int64), cuts, axis=1)
            )


def _extremes(numbers: Matrix, cuts: Counts) -> tuple[Matrix, Matrix]:
    # The smallest and largest number between cuts, ignoring NaN. This is slower if there is a NaN.
    if numbers.shape[1] == 1:
        return numbers, numbers
    least = numpy.minimum.reduceat(numbers, cuts, axis=1)
    if not numpy.isnan(least).any():
        return least, numpy.maximum.reduceat(numbers, cuts, axis=1)
    return numpy.fmin.reduceat(numbers, cuts, axis=1), numpy.fmax.reduceat(numbers, cuts, axis=1)


@dataclass(frozen=True)
class Stretch:
    """Successive steps in which numbers of one name and kind are not finite."""

    name: str
    kind: str
    first: int
    last: int
    count: int


def stretches_of_nonfinite(reader: RunReader, first: int = 0, most: int = 2000) -> tuple[list[Stretch], int | None]:
    """Stretches that begin at step ``first`` or later, in order: about ``most``, and the step at which to continue.

    All stretches that begin at the same step are returned together. The step is None if there are no more.
    """
    steps, rows = reader.info()["step"], list(reader.rows().values())
    keys = [(row.name, row.kind) for row in rows]
    low = int(numpy.searchsorted(steps, first))
    found: list[Stretch] = []
    before = numpy.zeros(len(rows), bool)  # was a row nonfinite in the last step that was read?
    begun = numpy.zeros(len(rows), numpy.int64)  # the place at which the present stretch of a row began
    if 0 < low < len(steps):
        before = _is_nonfinite(reader, rows, keys, low - 1, low)[:, 0]
        begun[before] = -1  # the stretch began before the first requested step
    for start, stop in reader.stretches(low, len(steps), max(1, NUMBERS // max(1, len(rows)))) if rows else ():
        is_so = numpy.broadcast_to(_is_nonfinite(reader, rows, keys, start, stop), (len(rows), stop - start))
        changes = numpy.diff(numpy.concatenate([before[:, None], is_so], axis=1).astype(numpy.int8), axis=1)
        for at, row in zip(*numpy.nonzero(changes.T), strict=True):
            if changes[row, at] > 0:
                begun[row] = start + at
            elif begun[row] >= 0:
                found.append(_stretch(rows[row], steps, begun[row], start + at))
        before = is_so[:, -1].copy()
        if len(found) >= most:
            break
    is_over = not rows or low >= len(steps) or stop >= len(steps)
    found += [_stretch(rows[row], steps, begun[row], stop) for row in numpy.flatnonzero(before) if begun[row] >= 0]
    found.sort(key=lambda one: one.first)
    return _whole(found, most, is_over)


def _is_nonfinite(reader: RunReader, rows: Any, keys: Any, start: int, stop: int) -> NDArray[numpy.bool_]:
    count, finite = (reader.narrow(rows, keys, column, start, stop) for column in ("count", "finite"))
    return numpy.asarray(finite < count)


def _stretch(row: RowKey, steps: Any, begin: int, end: int) -> Stretch:
    return Stretch(row.name, row.kind, int(steps[begin]), int(steps[end - 1]), int(end - begin))


def _whole(found: list[Stretch], most: int, is_over: bool) -> tuple[list[Stretch], int | None]:
    # At most ``most`` stretches. Those that begin at the same step are all returned.
    if len(found) <= most:
        return found, None if is_over else (found[-1].first + 1 if found else None)
    cut = found[most].first
    kept = [one for one in found if one.first < cut]
    return (kept, cut) if kept else ([one for one in found if one.first == cut], cut + 1)
