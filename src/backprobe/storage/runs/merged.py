"""All ranks of a run, read as one. Statistics of values of which each process has a part are merged. For values that
all processes share, the statistics of one process are taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from backprobe.errors import BadRun
from backprobe.findings.phrasing import listed
from backprobe.record.exponents import Exponents, merged_exponents
from backprobe.record.source import Source
from backprobe.record.statistics import (
    COLUMNS,
    STATISTICS,
    Numbers,
    Row,
    columns_for,
    merge_columns,
    merged,
    statistic,
)
from backprobe.storage.runs.layout import FILE, LOCK, Attempt, Matrix, RowKey, joined, nothing
from backprobe.storage.runs.lock import is_written
from backprobe.storage.runs.reader import Named, RankFile

LOGGED = "logged"
"""The kind of numbers that the program logs itself, and the name of the field that shows them."""
RATIO = "update.ratio"
NOT_FINITE = ("nan", "posinf", "neginf")
OF_LOGGED = ("count", "finite", *NOT_FINITE, "sum")
"""The columns from which ``logged`` computes the mean of logged numbers."""
MOST_OPEN = 64  # the most files that are kept open
Key = tuple[str, str]
"""The name and kind of a row."""


def open_ranks(folder: Path, asked: str) -> RunReader:
    """Open the files of a run. Raises BadRun."""
    before, after = FILE.split("{}")
    found = {
        int(one.name[len(before) : -len(after)]): one
        for one in folder.glob(FILE.format("*"))
        if one.name[len(before) : -len(after)].isdecimal()
    }
    if not found:
        raise _no_run(folder, asked)
    kept_open, named = len(found) <= MOST_OPEN, Named()
    with ExitStack() as opened:
        ranks = {}
        for rank in sorted(found):
            ranks[rank] = RankFile(found[rank], asked, kept_open, named)
            opened.callback(ranks[rank].close)
        opened.pop_all()  # all files could be opened, so they stay open
    return RunReader(ranks)


def _no_run(folder: Path, asked: str) -> BadRun:
    # The error for a path that holds no run.
    what = "a folder without one" if folder.is_dir() else "a file" if folder.exists() else "no such folder"
    inside = sorted({one.parent.name for one in folder.glob(f"*/{FILE.format('*')}")})
    known = "the folder that bp.watch(model, folder) was given"
    if inside:
        what, known = f"a folder of runs: {listed(inside)}", f"bp.open_run({str(folder / inside[0])!r})"
    return BadRun(f"{folder} is not a run: it has no {FILE.format(0)}", asked=asked, found=what, next=known)


class RunReader:
    """The ranks of a run, by number."""

    def __init__(self, ranks: Mapping[int, RankFile]) -> None:
        self.ranks = ranks

    def close(self) -> None:
        for rank in self.ranks.values():
            rank.close()

    @property
    def is_written(self) -> bool:
        """Is a process of this machine writing one of the files now?"""
        return any(is_written(one.path.with_name(LOCK.format(rank))) for rank, one in self.ranks.items())

    @property
    def is_of_many(self) -> bool:
        """Are there too many files to keep all of them open?"""
        return len(self.ranks) > MOST_OPEN

    @property
    def how(self) -> str:
        """The ways in which the files were opened: ``live``, ``immutable`` or ``copy``, as described in ``opening``."""
        return ", ".join(dict.fromkeys(rank.how for rank in self.ranks.values()))

    def rows(self) -> dict[Key, RowKey]:
        """All rows, by name and kind, in the order of the model."""
        found, last = dict[Key, RowKey](), None
        for rank in self.ranks.values():
            keys = rank.index().keys
            if keys is not last:
                found |= {key: row for key, row in keys.items() if key not in found}
            last = keys
        return found

    def names_of(self, kind: str) -> list[str]:
        """The names that have numbers of a kind, in the order of the model."""
        return [name for name, one in self.rows() if one == kind]

    def fields(self) -> list[str]:
        """Every field that at least one name has."""
        kinds = dict.fromkeys(kind for _, kind in self.rows())
        found = [f"{kind}.{name}" for kind in kinds if kind != LOGGED for name in STATISTICS]
        return found + [RATIO] * ({"update", "param"} <= kinds.keys()) + [LOGGED] * (LOGGED in kinds)

    def parameters(self) -> dict[str, None]:
        """The names of parameters: rows of kind "param", or gradients that are the same in all processes."""
        rows = self.rows().values()
        return dict.fromkeys(
            row.name for row in rows if row.kind == "param" or (row.kind == "grad" and row.merge == "once")
        )

    def aliases(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for rank in self.ranks.values():
            found |= rank.index().aliases
        return found

    def lines(self) -> dict[str, Source]:
        """The line of the program that calls a module or binds a local, by name."""
        found: dict[str, Source] = {}
        for rank in self.ranks.values():
            found = rank.lines() | found
        return found

    def attempts(self) -> list[Attempt]:
        """The attempts of the first rank."""
        return next(iter(self.ranks.values())).index().attempts

    def info(self) -> NDArray[Any]:
        """The stored facts about each step, in order. If several ranks have a step, the first rank's are used."""
        found = [rank.index().info for rank in self.ranks.values()]
        if len(found) == 1:
            return found[0]
        together = joined(found)
        return together[numpy.unique(together["step"], return_index=True)[1]]

    def made_by(self, last: int) -> NDArray[numpy.int64]:
        """The attempt of the first rank that made each step up to ``last``. A step that is made anew has another
        attempt.
        """
        index = next(iter(self.ranks.values())).index()
        return index.attempt_of[: int(numpy.searchsorted(index.info["step"], last, side="right"))]

    def columns(self, rows: Sequence[RowKey], wanted: Sequence[str]) -> tuple[NDArray[numpy.int64], dict[str, Matrix]]:
        """The steps, and for each column a matrix of rows × steps."""
        keys = [(row.name, row.kind) for row in rows]
        if len(self.ranks) == 1:
            (only,) = self.ranks.values()
            info, found = only.columns(keys, wanted)
            return info["step"], found
        steps = self.info()["step"]
        is_once = numpy.array([row.merge == "once" for row in rows], bool)
        wanted = list(dict.fromkeys(["count"] * bool(is_once.any()) + [*wanted]))
        total = {column: nothing((len(rows), len(steps)), column) for column in wanted}
        for rank in self.ranks.values():
            # usually, no number is shared by all processes, and the steps are the same
            if not is_once.any() and rank.merge_into(total, keys, steps):
                continue
            info, found = rank.columns(keys, wanted)
            at = numpy.searchsorted(steps, info["step"])
            is_known = at < len(steps)
            # Leave out steps that were written in the meantime.
            is_known[is_known] = steps[at[is_known]] == info["step"][is_known]
            _add(total, {name: numbers[:, is_known] for name, numbers in found.items()}, at[is_known], is_once)
        return steps, total

    def narrow(self, rows: Sequence[RowKey], keys: Sequence[Key], column: str, low: int, high: int) -> Matrix:
        """A column of some rows, whose ``keys`` are given, in the steps from place ``low`` to ``high``: rows × steps.

        It is rows × 1 if no step differs from another, as for most counts.
        """
        if len(self.ranks) == 1:
            (only,) = self.ranks.values()
            return only.narrow(keys, column, low, high)
        return self.narrow_of_all(rows, keys, [column], low, high)[column]

    def narrow_of_all(
        self, rows: Sequence[RowKey], keys: Sequence[Key], columns: Sequence[str], low: int, high: int
    ) -> dict[str, Matrix]:
        """Several columns of all processes. With very many processes, each file is opened once for all columns."""
        steps = self.info()["step"][low:high]
        is_once = numpy.array([row.merge == "once" for row in rows], bool)
        wanted = list(dict.fromkeys(["count"] * bool(is_once.any()) + [*columns]))
        total = {one: nothing((len(rows), len(steps)), one) for one in wanted}
        for rank in self.ranks.values():
            with rank.held():
                own = rank.index().info["step"]
                first = int(numpy.searchsorted(own, steps[0]))
                last = int(numpy.searchsorted(own, steps[-1], side="right"))
                at = numpy.searchsorted(steps, own[first:last])
                shape = len(rows), last - first
                part = {one: numpy.broadcast_to(rank.narrow(keys, one, first, last), shape) for one in wanted}
            _add(total, part, at, is_once)
        return total

    def by_rank(
        self, keys: Sequence[Key], columns: Sequence[str], first: int, last: int
    ) -> Iterator[tuple[int, NDArray[numpy.int64], dict[str, Matrix]]]:
        """For each process its number, its steps from ``first`` to ``last`` (both included), and columns of some rows
        in them, as rows × steps. Processes that have none of these steps are left out.
        """
        for number, rank in self.ranks.items():
            steps = rank.index().info["step"]
            low, high = (int(numpy.searchsorted(steps, *one)) for one in ((first, "left"), (last, "right")))
            if low < high:
                shape = len(keys), high - low
                with rank.held():
                    own = {one: numpy.broadcast_to(rank.narrow(keys, one, low, high), shape) for one in columns}
                yield number, steps[low:high], own

    def stretches(self, low: int, high: int, most: int) -> Iterator[tuple[int, int]]:
        """The places from ``low`` to ``high`` in parts of about ``most`` steps, usually without cutting a chunk in two.

        A chunk of more steps is a part by itself.
        """
        index = next(iter(self.ranks.values())).index()
        ends = index.ends if index.is_plain else []
        while low < high:
            at = bisect_right(ends, low + most) - 1  # the last chunk that ends within ``most`` steps
            stop = ends[at] if at >= 0 and ends[at] > low else ends[at + 1] if at + 1 < len(ends) else low + most
            yield low, min(stop, high)
            low = stop

    def settled(self) -> int:
        """The smallest of the ranks' last steps; -1 if a rank has no step yet. Later steps may still grow."""
        lasts = [
            int(info["step"][-1]) if len(info) else -1 for info in (rank.index().info for rank in self.ranks.values())
        ]
        return min(lasts)

    def field(self, names: Sequence[str], field: str) -> tuple[NDArray[numpy.int64], Matrix]:
        """The steps, and a field of these names as names × steps; NaN if there is no number."""
        if field == LOGGED:
            rows = self._rows_of((name, LOGGED) for name in names)
            steps, columns = self.columns(rows, OF_LOGGED)
            return steps, logged(columns)
        if field == RATIO:
            steps, updates = self.field(names, "update.rms")
            again, sizes = self.field(names, "param.rms")
            both = min(len(steps), len(again))  # a step may have been written between the two reads
            with numpy.errstate(all="ignore"):
                return steps[:both], updates[:, :both] / sizes[:, :both]
        kind, _, name = field.rpartition(".")
        steps, columns = self.columns(self._rows_of((one, kind) for one in names), columns_for([name]))
        return steps, statistic(name, columns)

    def has_exponents(self) -> bool:
        """Does any row have histograms?"""
        return any(rank.has_exponents() for rank in self.ranks.values())

    def exponents(self, name: str, kind: str, since: int = -(2**62)) -> dict[int, Exponents]:
        """The histograms of a name, by step, from ``since`` on."""
        row = self.rows().get((name, kind), RowKey(name, kind))
        found: dict[int, Exponents] = {}
        for rank in self.ranks.values():
            for step, one in rank.exponents((name, kind), since).items():
                if step not in found:
                    found[step] = one
                elif row.merge == "sum":
                    found[step] = merged_exponents(found[step], one)
        return dict(sorted(found.items()))

    def gaps(
        self, codes: Sequence[str] | None = None, low: int = 0, high: int | None = None
    ) -> list[tuple[int, str, str, str]]:
        """Step, name, kind and code of each row that is missing in all ranks, for these codes.

        In a run of one rank, only the steps from place ``low`` to ``high`` count.
        """
        if len(self.ranks) > 1:
            low, high = 0, None  # the places of a step differ between ranks
        found = {
            (step, name, kind): code
            for rank in self.ranks.values()
            for step, (name, kind, code) in rank.gaps(codes, low, high)
        }
        if len(self.ranks) > 1 and found:
            rows = self._rows_of({(name, kind) for _, name, kind in found})
            steps, columns = self.columns(rows, ["count"])
            when = {step: at for at, step in enumerate(steps.tolist())}
            where = {(row.name, row.kind): at for at, row in enumerate(rows)}
            found = {
                (step, name, kind): code
                for (step, name, kind), code in found.items()
                if not columns["count"][where[name, kind], when[step]]
            }
        return [(*key, code) for key, code in found.items()]

    def _rows_of(self, keys: Iterable[Key]) -> list[RowKey]:
        known = self.rows()
        return [known.get(key, RowKey(*key)) for key in keys]

    def at(self, step: int) -> tuple[Any, int, dict[str, dict[str, float]]] | None:
        """The stored facts about a step, its attempt, and its fields by name; None if the step does not exist."""
        found = [one for rank in self.ranks.values() if (one := rank.at(step)) is not None]
        if not found:
            return None
        known, rows = self.rows(), dict[Key, Row]()
        for _, _, own in found:
            for key, row in own.items():
                if key not in rows:
                    rows[key] = row
                elif known[key].merge == "sum":
                    rows[key] = merged(rows[key], row)
        return found[0][0], found[0][1], fields(rows)


def _add(total: Mapping[str, Matrix], part: Mapping[str, Matrix], at: Any, is_once: NDArray[numpy.bool_]) -> None:
    # Add the columns of one rank to the sum of the ranks before it, at these steps. Rows with ``is_once`` are added
    # only where no earlier rank has them.
    if is_once.any():
        is_there = (total["count"][:, at] > 0) & is_once[:, None]
        part = {name: numpy.where(is_there, nothing((1, 1), name), numbers) for name, numbers in part.items()}
    merge_columns(total, part, (slice(None), at))


def logged(columns: Mapping[str, Numbers]) -> Numbers:
    """The mean of logged numbers; NaN or Inf if one of them is NaN or Inf."""
    with numpy.errstate(all="ignore"):
        mean = columns["sum"] / columns["finite"]
        infinite = numpy.where(columns["posinf"] > 0, numpy.inf, 0) - numpy.where(columns["neginf"] > 0, numpy.inf, 0)
        mean = numpy.where(infinite == 0, mean, infinite)
        return numpy.where(columns["nan"] > 0, numpy.nan, mean)


def fields(rows: Mapping[Key, Row]) -> dict[str, dict[str, float]]:
    """The fields of the rows, such as ``value.rms``, by name of the value, with the ratio of update to parameter."""
    matrix = numpy.array(list(rows.values())).reshape(len(rows), len(COLUMNS))
    columns = dict(zip(COLUMNS, matrix.T, strict=True))
    found: dict[str, dict[str, float]] = {name: {} for name, _ in rows}
    numbers = {one: statistic(one, columns).tolist() for one in STATISTICS}
    shown = logged(columns).tolist()
    for at, (name, kind) in enumerate(rows):
        if kind == LOGGED:
            found[name][LOGGED] = shown[at]
        else:
            found[name] |= {f"{kind}.{one}": held[at] for one, held in numbers.items()}
    for own in found.values():
        if "update.rms" in own and "param.rms" in own:
            own[RATIO] = own["update.rms"] / own["param.rms"] if own["param.rms"] else float("nan")
    return found
