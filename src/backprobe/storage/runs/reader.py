"""Reads a rank's file: the steps in it, and the columns of some rows over these steps."""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy
from numpy.typing import NDArray

from backprobe.record.exponents import Exponents
from backprobe.record.gaps import GapCode
from backprobe.record.source import Source
from backprobe.record.statistics import COLUMNS, merge_columns
from backprobe.storage.runs.chosen_rows import ChosenRows
from backprobe.storage.runs.layout import (
    INFO,
    Attempt,
    Matrix,
    Missing,
    RowKey,
    blank,
    column_id,
    info_read,
    joined,
    nothing,
    unsealed,
    unsealed_rows,
)
from backprobe.storage.runs.opening import closed, not_a_run, opened, version_of
from backprobe.storage.schema import UNFIT

Places = dict[int, dict[tuple[str, str], int]]  # the place of each name and kind, by attempt
Keys = dict[tuple[str, str], RowKey]
Found = TypeVar("Found")
DAMAGED = (sqlite3.DatabaseError, *(kind for kind in UNFIT if kind is not MemoryError))
"""Errors that reading a damaged file may raise."""
FEW, PART = 8, 32  # up to FEW rows, or 1/PART of a chunk, are read row by row; for more rows, the whole column is read


NEWEST = 64  # the number of cached steps outside chunks: as many as the rules need to judge one more step


@dataclass(frozen=True)
class Stored:
    """Steps that are stored together: a chunk, or a single step that is in none. ``height`` is the chunk's number of
    rows.
    """

    id: int
    is_chunk: bool
    attempt: int
    info: NDArray[Any]
    height: int = 0


@dataclass
class FileIndex:
    """The contents of a file at one moment. ``at`` changes whenever the file is written."""

    at: Any = None
    attempts: list[Attempt] = field(default_factory=list)
    places: Places = field(default_factory=dict)
    keys: Keys = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    stored: list[Stored] = field(default_factory=list)
    info: NDArray[Any] = field(default_factory=lambda: numpy.empty(0, INFO))  # for each step that is read, in order
    # For each step that is read: the attempt that made it.
    attempt_of: NDArray[numpy.int64] = field(default_factory=lambda: numpy.empty(0, numpy.int64))
    # For each step that is read: the place at which it is stored.
    chosen: NDArray[numpy.int64] = field(default_factory=lambda: numpy.empty(0, numpy.int64))
    is_plain: bool = True  # are all stored steps read, in the order in which they are stored?
    # for each element of ``stored``: the number of steps stored up to its end
    ends: list[int] = field(default_factory=list)


class Named:
    """The rows of a file, shared by all files that have the same rows, as most ranks do."""

    def __init__(self) -> None:
        self.last: list[Any] | None = None

    def of(self, named: list[Any]) -> tuple[Places, Keys]:
        """The place of each row by attempt, and the key of each row, the last attempt first."""
        if named != self.last:
            self.last, self.places, self.keys = named, Places(), Keys()
            for attempt, place, *key in named:
                one = RowKey(*key)
                self.places.setdefault(attempt, {})[one.name, one.kind] = place
                self.keys.setdefault((one.name, one.kind), one)
        return self.places, self.keys


class RankFile:
    """A rank's file, opened for reading; it may be written meanwhile. Raises BadRun.

    If there are very many files, they are not ``kept_open``, because a process may open about a thousand files.
    """

    def __init__(self, path: Path, asked: str, kept_open: bool = True, named: Named | None = None) -> None:
        self.path, self.asked, self.kept_open, self.named = path, asked, kept_open, named or Named()
        self.how, self._is_held = "", False
        self._index = FileIndex()
        self._asked_last: tuple[Any, dict[int, tuple[Any, ChosenRows]]] = (None, {})
        # cached steps by attempt and id, because stored steps never change
        self._newest: dict[tuple[int, int], Matrix] = {}
        self._closing: weakref.finalize[Any, Any] | None = None
        if kept_open:
            self._open()

    def _open(self) -> None:
        self.connection, self.how = opened(self.path, self.asked)
        self._closing = weakref.finalize(self, self.connection.close)

    def close(self) -> None:
        if self._closing is not None:
            self._closing()

    def index(self) -> FileIndex:
        """The contents of the file now."""
        if not self.kept_open and self._index.at == self._changed():
            return self._index
        with self.reading() as index:
            return index

    @contextmanager
    def reading(self) -> Iterator[FileIndex]:
        """Inside this context, all reads see the file as it was at one moment, even if it is written meanwhile.

        Other errors raised inside this context are passed on. Reads must use ``_sound``, which raises BadRun for a
        damaged file.
        """
        opens = not self.kept_open and not self._is_held
        if opens:
            self._open()
        elif self._closing is None or not self._closing.alive:
            raise closed(self.path, self.asked)
        try:
            self._sound(self._begin)
            yield self._index
        finally:
            if self.connection.in_transaction:
                # If this fails, the file is damaged, and the read inside this context has already reported that.
                with suppress(sqlite3.DatabaseError):
                    self.connection.execute("COMMIT")
            if opens:
                self.close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside this context the file stays open, even if it is one of very many."""
        if not self.kept_open:
            self._open()
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            if not self.kept_open:
                self.close()

    def _sound(self, read: Callable[..., Found], *given: Any) -> Found:
        # The result of a read. Raises BadRun if the file is damaged.
        try:
            return read(*given)
        except sqlite3.ProgrammingError:  # the run was closed
            raise
        except DAMAGED as error:
            raise not_a_run(self.path, self.asked, error) from error

    def _begin(self) -> None:
        changed = self._changed()
        self.connection.execute("BEGIN")
        self._refresh(changed)

    def _changed(self) -> Any:
        # A value that changes when the file has been written.
        if self.kept_open:
            return None  # SQLite's connection notices changes by itself
        found = []
        for ending in ("", "-wal"):
            with suppress(FileNotFoundError):
                stat = os.stat(f"{self.path}{ending}")
                found.append((stat.st_mtime_ns, stat.st_size))
        return found

    def _refresh(self, changed: Any) -> None:
        run = self.connection.execute
        run("SELECT 1 FROM sqlite_master").fetchone()  # the snapshot begins at the first read
        now = changed or run("PRAGMA data_version").fetchone()[0]
        if now == self._index.at:
            return
        index = FileIndex(now)
        index.attempts = [Attempt.of(*row) for row in run("SELECT attempt, facts FROM attempts ORDER BY attempt")]
        named = run("SELECT attempt, place, name, kind, merge FROM rows ORDER BY attempt DESC, place").fetchall()
        index.places, index.keys = self.named.of(named)
        index.aliases = dict(run("SELECT alias, name FROM aliases ORDER BY attempt"))
        index.stored, info = _joined(self._stored())
        _choose(index, info)
        self._index = index

    def _stored(self) -> list[Stored]:
        known = {one.id: one for one in self._index.stored if one.is_chunk}  # chunks never change
        found = [known[at] for (at,) in self.connection.execute("SELECT id FROM chunks ORDER BY id") if at in known]
        version = version_of(self.connection)
        chunks = self.connection.execute(
            "SELECT id, attempt, info, height FROM chunks WHERE id > ? ORDER BY id", (max(known, default=-1),)
        )
        found += [Stored(at, True, attempt, info_read(info, version), height) for at, attempt, info, height in chunks]
        steps = self.connection.execute("SELECT id, attempt, info FROM steps ORDER BY id")
        return found + [Stored(at, False, attempt, info_read(info, version)) for at, attempt, info in steps]

    # Methods that read what is stored about steps and rows.

    def columns(self, keys: Sequence[tuple[str, str]], wanted: Sequence[str]) -> tuple[NDArray[Any], dict[str, Matrix]]:
        """The facts about all steps, and for each wanted column a matrix of rows × steps for these names and kinds."""
        with self.reading() as index:
            size = sum(len(one.info) for one in index.stored)
            found = {column: nothing((len(keys), size), column) for column in wanted}
            for column, to, at, numbers in self._parts(index, keys, wanted):
                found[column][to, at] = numbers
            if not index.is_plain:
                found = {column: numbers[:, index.chosen] for column, numbers in found.items()}
            return index.info, found

    def narrow(self, keys: Sequence[tuple[str, str]], column: str, low: int, high: int) -> Matrix:
        """A column of these names and kinds in the steps from place ``low`` to ``high``: rows × steps.

        It is rows × 1 if no step differs from another, as for most counts.
        """
        with self.reading() as index:
            chosen = index.chosen[low:high]
            first, last = (int(chosen.min()), int(chosen.max()) + 1) if len(chosen) else (0, 0)
            parts: list[Matrix] = []
            widths: list[int] = []
            for number in range(bisect_right(index.ends, first), bisect_left(index.ends, last) + 1 if last else 0):
                stored = index.stored[number]
                begin = index.ends[number] - len(stored.info)
                of = slice(max(first - begin, 0), min(last - begin, len(stored.info)))
                part = self._narrow(stored, keys, index.places.get(stored.attempt, {}), column)
                parts.append(part[:, of] if part.shape[1] > 1 else part)
                widths.append(of.stop - of.start)
        if not parts:
            return nothing((len(keys), 0), column)
        if all(one.shape[1] == 1 and (one is parts[0] or numpy.array_equal(one, parts[0])) for one in parts):
            return parts[0]
        found = numpy.empty((len(keys), last - first))
        at = 0
        for part, width in zip(parts, widths, strict=True):
            found[:, at : at + width] = part
            at += width
        return found if index.is_plain else found[:, chosen - first]

    def _narrow(
        self, stored: Stored, keys: Sequence[tuple[str, str]], places: Mapping[tuple[str, str], int], column: str
    ) -> Matrix:
        # A column of steps that are stored together. Rows that these steps lack hold the values of an empty row.
        rows = self._rows_of(stored.attempt, keys, places)
        if stored.is_chunk:
            rows = rows.below(stored.height)
            numbers = self._of_chunk(stored, column, rows)
        else:
            matrix = self._sound(self._step, stored)
            rows = rows.below(matrix.shape[1])
            numbers = matrix[COLUMNS.index(column)][rows.regular[1]][:, None]
        if len(rows.to) == len(keys):
            return numbers
        found = nothing((len(keys), numbers.shape[1]), column)
        found[rows.regular[0]] = numbers
        return found

    def _rows_of(self, attempt: int, keys: Any, places: Mapping[tuple[str, str], int]) -> ChosenRows:
        # Which rows of the keys exist in an attempt. The answer for the last keys is cached, since callers ask block by
        # block.
        if keys is not self._asked_last[0]:
            self._asked_last = keys, {}
        known = self._asked_last[1]
        if attempt not in known or known[attempt][0] is not places:
            known[attempt] = places, ChosenRows.of(keys, places)
        return known[attempt][1]

    def merge_into(
        self, total: Mapping[str, Matrix], keys: Sequence[tuple[str, str]], steps: NDArray[numpy.int64]
    ) -> bool:
        """Add this file's rows to matrices of rows × steps, if it has exactly these steps. Otherwise return False."""
        with self.reading() as index:
            if not index.is_plain or not numpy.array_equal(index.info["step"], steps):
                return False
            for column, to, at, numbers in self._parts(index, keys, [*total]):
                merge_columns(total, {column: numbers}, (to, at))
            return True

    def _parts(
        self, index: FileIndex, keys: Sequence[tuple[str, str]], wanted: Sequence[str]
    ) -> Iterator[tuple[str, Any, slice, Matrix]]:
        # Some rows of all steps, in parts as they are stored. Each part has the column, the places of its rows and
        # steps in the result, and the numbers. If the rows do not change, the numbers have a single step.
        rows: dict[int, ChosenRows] = {}
        end = 0
        for one in index.stored:
            if one.attempt not in rows:
                rows[one.attempt] = ChosenRows.of(keys, index.places.get(one.attempt, {}))
            at = slice(end, end := end + len(one.info))
            for column, to, numbers in self._read(one, rows[one.attempt], wanted):
                yield column, to, at, numbers

    def _read(self, stored: Stored, rows: ChosenRows, wanted: Sequence[str]) -> Iterator[tuple[str, Any, Matrix]]:
        # Some rows of steps that are stored together.
        if not stored.is_chunk:
            matrix = self._sound(self._step, stored)
            rows = rows.below(matrix.shape[1])
            for column in wanted:
                yield column, rows.to, matrix[COLUMNS.index(column)][rows.places][:, None]
            return
        rows = rows.below(stored.height)
        for column in wanted if len(rows.places) else ():
            yield column, rows.regular[0], self._of_chunk(stored, column, rows)

    def _step(self, stored: Stored) -> Matrix:
        # A step that is in no chunk. It is checked once and then cached, because its columns are requested one after
        # another.
        key = stored.attempt, stored.id
        if key not in self._newest:
            data = self.connection.execute("SELECT data FROM steps WHERE id = ?", (stored.id,)).fetchone()[0]
            self._newest[key] = unsealed(data, len(COLUMNS))
            if len(self._newest) > NEWEST:
                del self._newest[next(iter(self._newest))]
        return self._newest[key]

    def _of_chunk(self, stored: Stored, column: str, rows: ChosenRows) -> Matrix:
        # A column of a chunk for some rows: rows × steps, or rows × 1 if it is constant.
        if 0 < len(rows.places) <= max(FEW, stored.height // PART):
            return self._sound(self._rows_alone, stored, column, rows.places.tolist())
        return numpy.asarray(self._sound(self._column, stored, column)[rows.regular[1]])

    def _column(self, stored: Stored, column: str) -> Matrix:
        # A column of a chunk: rows × steps, or rows × 1 if it is constant.
        at = column_id(stored.id, column)
        with self.connection.blobopen("columns", "data", at, readonly=True) as blob:  # a SELECT takes six times as long
            return _of_steps(stored, unsealed(blob.read(), stored.height))

    def _rows_alone(self, stored: Stored, column: str, places: Sequence[int]) -> Matrix:
        # Some rows of a column, without reading the others.
        with self.connection.blobopen("columns", "data", column_id(stored.id, column), readonly=True) as blob:

            def read(start: int, size: int) -> bytes:
                blob.seek(start)
                return blob.read(size)

            return _of_steps(stored, unsealed_rows(read, len(blob), stored.height, places))

    def at(self, step: int) -> tuple[Any, int, dict[tuple[str, str], tuple[float, ...]]] | None:
        """The facts about a step, its attempt, and its statistics by name and kind; None if there is no such step."""
        with self.reading() as index:
            found = int(numpy.searchsorted(index.info["step"], step))
            if found == len(index.info) or index.info["step"][found] != step:
                return None
            within = int(index.chosen[found])
            for stored in index.stored:
                if within < len(stored.info):
                    break
                within -= len(stored.info)
            matrix = self._sound(self._matrix, stored, within).T.tolist()
            places = index.places.get(stored.attempt, {})
            rows = {
                key: tuple(matrix[place]) for key, place in places.items() if place < len(matrix) and matrix[place][0]
            }
            return index.info[found], stored.attempt, rows

    def lines(self) -> dict[str, Source]:
        """The line that calls a module or binds a local, by name, from the last attempt that has one."""
        with self.reading():
            return self._sound(self._lines)

    def _lines(self) -> dict[str, Source]:
        run = self.connection.execute
        if run("SELECT 1 FROM sqlite_master WHERE name = 'lines'").fetchone() is None:  # a run of an older version
            return {}
        return {name: Source(*line) for name, *line in run("SELECT name, file, line, text FROM lines ORDER BY attempt")}

    def has_exponents(self) -> bool:
        """Does the file hold any histograms?"""
        with self.reading():
            return self._sound(self.connection.execute, "SELECT 1 FROM exponents LIMIT 1").fetchone() is not None

    def exponents(self, key: tuple[str, str], since: int = -(2**62), until: int = 2**62) -> dict[int, Exponents]:
        """The histograms of a name and kind by step, from ``since`` to ``until``."""
        with self.reading() as index:
            return self._sound(self._exponents, index, key, since, until)

    def _exponents(self, index: FileIndex, key: tuple[str, str], since: int, until: int) -> dict[int, Exponents]:
        found, steps = {}, index.info["step"]
        for attempt, places in index.places.items():
            rows = self.connection.execute(
                "SELECT step, low, smallest, counts FROM exponents "
                "WHERE attempt = ? AND place = ? AND step BETWEEN ? AND ?",
                (attempt, places.get(key, -1), since, until),
            )
            for step, low, smallest, counts in rows:
                at = int(numpy.searchsorted(steps, step))
                if at < len(steps) and steps[at] == step and index.attempt_of[at] == attempt:
                    found[step] = Exponents(low, unsealed(counts, 1, numpy.int64)[0], smallest)
        return found

    def gaps(
        self, codes: Sequence[str] | None = None, low: int = 0, high: int | None = None
    ) -> Iterator[tuple[int, Missing]]:
        """For each measured step that had a backward and was ended by an optimizer, and that no gradient scaler
        skipped: the names and kinds without a row.

        Only the reasons in ``codes`` count, and only the steps from place ``low`` to ``high``.
        """
        with self.reading() as index:
            by_attempt = self._sound(self._gaps)
        if codes is not None:
            by_attempt = {
                attempt: [(step, [one for one in missing if one[2] in codes]) for step, missing in said]
                for attempt, said in by_attempt.items()
            }
        if not any(missing for said in by_attempt.values() for _, missing in said):
            return
        every = {one.number: int(one.facts.get("every", 1)) for one in index.attempts}
        info, attempts = index.info[low:high], index.attempt_of[low:high].tolist()
        has_passed = (info["backwards"] > 0) & (info["skipped"] == 0)
        for step, attempt, passed in zip(info["step"].tolist(), attempts, has_passed.tolist(), strict=True):
            if passed and step % every[attempt] == 0:
                known = by_attempt.get(attempt, [])
                at = bisect_right(known, step, key=lambda one: one[0])
                yield from ((step, one) for one in (known[at - 1][1] if at else ()))

    def said_of_gaps(self) -> list[tuple[int, int, list[Missing]]]:
        """The entries about missing rows: the attempt, the step from which the entry applies, and the missing rows."""
        with self.reading():
            found = self._sound(self._gaps)
        return [(attempt, *one) for attempt, said in found.items() for one in said]

    def _gaps(self) -> dict[int, list[tuple[int, list[Missing]]]]:
        # The entries about missing rows by attempt, each with the step from which it applies.
        found: dict[int, list[tuple[int, list[Missing]]]] = {}
        said = self.connection.execute("SELECT attempt, step, gaps FROM gaps ORDER BY attempt, step")
        for attempt, step, text in said:
            missing = [(name, kind, GapCode(code).value) for name, kind, code in json.loads(text)]
            found.setdefault(attempt, []).append((step, missing))
        return found

    def _matrix(self, stored: Stored, within: int) -> Matrix:
        # One of the steps that are stored together, as columns × rows.
        if not stored.is_chunk:
            return self._step(stored)
        columns = [self._column(stored, column) for column in COLUMNS if stored.height]
        if not columns:
            return blank(0)
        return numpy.stack([column[:, within if column.shape[1] > 1 else 0] for column in columns])


def _of_steps(stored: Stored, numbers: Matrix) -> Matrix:
    # Return the numbers of some rows of a chunk unchanged. Raises ValueError if they have neither one column nor one
    # for each step of the chunk.
    if numbers.shape[-1] not in (1, len(stored.info)):
        raise ValueError(f"it has the numbers of {numbers.shape[-1]} steps, and {len(stored.info)} steps")
    return numbers


def _joined(stored: Sequence[Stored]) -> tuple[list[Stored], NDArray[Any]]:
    # The steps. The facts of each step are a view into a single array, which takes some MB for a long run.
    if not stored:
        return [], numpy.empty(0, INFO)
    info, end = joined([one.info for one in stored]), 0
    return [replace(one, info=info[end : (end := end + len(one.info))]) for one in stored], info


def _choose(index: FileIndex, info: NDArray[Any]) -> None:
    # If several attempts made a step, the last one is read.
    if not index.stored:
        return
    attempts = numpy.repeat([one.attempt for one in index.stored], [len(one.info) for one in index.stored])
    steps = info["step"]
    index.is_plain = bool((steps[1:] > steps[:-1]).all())
    index.ends = numpy.cumsum([len(one.info) for one in index.stored]).tolist()
    if index.is_plain:
        index.chosen, index.info, index.attempt_of = numpy.arange(len(steps)), info, attempts
        return
    order = numpy.lexsort((attempts, steps))
    steps = steps[order]
    index.chosen = order[numpy.append(steps[1:] != steps[:-1], True)]
    index.info, index.attempt_of = info[index.chosen], attempts[index.chosen]
