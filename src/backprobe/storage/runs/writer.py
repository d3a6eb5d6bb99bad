"""Writes a rank's file: appends and commits steps, and combines older steps into chunks by column."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy

from backprobe.record.source import Source
from backprobe.record.statistics import COLUMNS
from backprobe.storage.runs.layout import (
    APPLICATION,
    INFO,
    LINES,
    LOCK,
    PAGE,
    TABLES,
    VERSION,
    Matrix,
    Missing,
    NewRows,
    RowKey,
    StepData,
    blank,
    column_id,
    file_of,
    info_of,
    sealed,
    sealed_each,
    steps_in_chunk,
    unsealed,
)
from backprobe.storage.runs.lock import WriteLock
from backprobe.storage.runs.opening import check_version, not_a_run, of_system
from backprobe.storage.runs.presence import Presence

BUSY = 30.0  # seconds that a reader may block the file if there is no write-ahead log


class RunWriter:
    """The only writer of a rank's file, from its creation to ``close``. Only one thread may call its methods at a time.

    ``next_step`` is the number after the last step of all attempts so far. Raises BadRun, and OSError if nothing can be
    written, as on a full disk.
    """

    def __init__(self, folder: Path, rank: int, facts: Mapping[str, Any], asked: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = file_of(folder, rank)
        self.lock = WriteLock(folder / LOCK.format(rank))
        self.lock.take(asked)
        try:
            self.connection = sqlite3.connect(self.path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            try:
                self._open(facts, asked)
                self.presence = Presence(self.path)
            except BaseException:
                self.connection.close()
                raise
        except BaseException:
            self.lock.release()
            raise

    def _open(self, facts: Mapping[str, Any], asked: str) -> None:
        run = self.connection.execute
        try:
            is_new = not run("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if is_new:
                run(f"PRAGMA page_size = {PAGE}")
            else:
                check_version(self.connection, self.path, asked)
            self.journal = self._journal()
            run("PRAGMA synchronous = NORMAL")  # commits do not wait for the disk; the file stays intact if power fails
            run("BEGIN IMMEDIATE")
            if is_new:
                for statement in filter(str.strip, TABLES.split(";")):
                    run(statement)
                run(f"PRAGMA application_id = {APPLICATION}")
                run(f"PRAGMA user_version = {VERSION}")
            run(LINES)
            self._begin_attempt({**facts, "journal": self.journal})
            run("COMMIT")
        except (sqlite3.DatabaseError, ValueError) as error:
            raise of_system(error) or not_a_run(self.path, asked, error) from error

    def _journal(self) -> str:
        # A write-ahead log if possible. It needs memory that processes share, which network folders do not have.
        try:
            return str(self.connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError:
            return str(self.connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0])

    def _begin_attempt(self, facts: Mapping[str, Any]) -> None:
        run = self.connection.execute
        self.attempt = run("SELECT coalesce(max(attempt) + 1, 0) FROM attempts").fetchone()[0]
        self.facts = facts
        self.gaps: Sequence[Missing] | None = None  # the gaps of the last step that was written
        run("INSERT INTO attempts VALUES (?, ?)", (self.attempt, json.dumps(facts)))
        blobs = [info for table in ("steps", "chunks") for (info,) in run(f"SELECT info FROM {table}")]
        self.next_step = max((int(unsealed(blob, 1, INFO)["step"].max()) + 1 for blob in blobs), default=0)
        self.height = 0
        self.new = NewRows()
        self.tail: list[StepData] = []  # the steps that are committed, but not yet in a chunk
        self.pending: list[StepData] = []
        self.next_id, self.next_chunk = (
            run(f"SELECT coalesce(max(id) + 1, 0) FROM {table}").fetchone()[0] for table in ("steps", "chunks")
        )

    def add_rows(
        self,
        rows: Sequence[RowKey],
        aliases: Mapping[str, str] | None = None,
        lines: Mapping[str, Source] | None = None,
    ) -> None:
        """Add rows for the steps from now on, aliases of rows, and lines by name."""
        self.new.rows.extend(rows)
        self.new.aliases.update(aliases or {})
        self.new.lines.update(lines or {})

    def append(self, step: StepData) -> None:
        """Add a step; its numbers are on disk after the next ``commit``."""
        self.pending.append(step)

    def commit(self, is_last: bool = False) -> None:
        """Write everything that was appended to disk, so that it survives if the process is killed.

        After the last commit every step is in a chunk.

        Raises sqlite3.Error, as on a full disk; then nothing was written, and the commit can be tried again. Raises
        Deleted if the files no longer exist.
        """
        height = self.height + len(self.new.rows)
        size, waiting = steps_in_chunk(height), [*self.tail, *self.pending]
        is_all = is_last or 2 * len(self.pending) >= size  # many steps at once go straight into a chunk
        old = len(waiting) if is_all else len(waiting) - len(waiting) % size
        written = waiting[old:] if old else self.pending
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        try:
            self._write_rows()
            self._write_exponents()
            gaps = self._write_gaps()
            for at in range(0, old, size):
                self._write_chunk(self.next_chunk + at // size, waiting[at : min(at + size, old)], height)
            if old:
                run("DELETE FROM steps WHERE id >= ?", (self.next_id - len(self.tail),))
            self._write_steps(written)
            run("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                run("ROLLBACK")
            raise
        self.height, self.next_id = height, self.next_id + len(written)
        self.next_chunk += -(-old // size)
        self.new, self.pending = NewRows(), []
        self.tail, self.gaps = waiting[old:], gaps
        self.presence.check()

    def _write_gaps(self) -> Sequence[Missing] | None:
        # Write the gaps of each step, unless they equal those of the step before. Returns the gaps of the last step.
        last = self.gaps
        for step in self.pending:
            if step.gaps is not None and step.gaps != last:
                last = step.gaps
                text = json.dumps(last)
                self.connection.execute("INSERT OR REPLACE INTO gaps VALUES (?, ?, ?)", (self.attempt, step.step, text))
        return last

    def _write_rows(self) -> None:
        self.connection.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?)",
            [
                (self.attempt, place, key.name, key.kind, key.merge)
                for place, key in enumerate(self.new.rows, self.height)
            ],
        )
        self.connection.executemany(
            "INSERT OR REPLACE INTO aliases VALUES (?, ?, ?)",
            [(self.attempt, alias, name) for alias, name in self.new.aliases.items()],
        )
        self.connection.executemany(
            "INSERT OR REPLACE INTO lines VALUES (?, ?, ?, ?, ?)",
            [(self.attempt, name, one.file, one.line, one.text) for name, one in self.new.lines.items()],
        )

    def _write_steps(self, steps: Iterable[StepData]) -> None:
        self.connection.executemany(
            "INSERT INTO steps VALUES (?, ?, ?, ?)",
            [
                (at, self.attempt, info, data)
                for at, (info, data) in enumerate(chain.from_iterable(map(_blobs, _alike(steps))), self.next_id)
            ],
        )

    def _write_exponents(self) -> None:
        self.connection.executemany(
            "INSERT OR REPLACE INTO exponents VALUES (?, ?, ?, ?, ?, ?)",
            [
                (self.attempt, place, step.step, one.low, one.smallest, sealed(one.counts[None]))
                for step in self.pending
                for place, one in step.exponents.items()
            ],
        )

    def _write_chunk(self, chunk: int, steps: Sequence[StepData], height: int) -> None:
        matrices = [_of_height(one.matrix, height) for one in steps]
        self.connection.execute(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?)",
            (chunk, self.attempt, len(steps), height, sealed(info_of(steps)[None])),
        )
        for at, column in enumerate(COLUMNS):
            numbers = numpy.stack([matrix[at] for matrix in matrices])  # an array of shape steps × rows
            kept = numbers[:1] if (numbers == numbers[0]).all() else numbers
            self.connection.execute("INSERT INTO columns VALUES (?, ?)", (column_id(chunk, column), sealed(kept.T)))

    def close(self) -> None:
        """Commit, and release the file for other writers. If nobody reads it now, its write-ahead log is removed."""
        try:
            self.commit(is_last=True)
            ended = json.dumps({**self.facts, "ended": time.time()})
            self.connection.execute("UPDATE attempts SET facts = ? WHERE attempt = ?", (ended, self.attempt))
            with contextlib.suppress(sqlite3.OperationalError):
                self.connection.execute("PRAGMA busy_timeout = 0")
                self.connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without writing. Steps that were not committed are lost."""
        try:
            self.connection.close()
        finally:
            self.presence.close()
            self.lock.release()


def _alike(steps: Iterable[StepData]) -> Iterator[list[StepData]]:
    # Split the steps into parts in which all matrices have the same height. The height grows when a name appears.
    for _, some in groupby(steps, lambda one: one.matrix.shape):
        yield list(some)


def _blobs(steps: Sequence[StepData]) -> Iterator[tuple[memoryview, memoryview]]:
    # For each of these steps, two blobs: the facts that are stored besides its statistics, and its statistics.
    return zip(
        sealed_each(info_of(steps)[:, None, None]),
        sealed_each(numpy.stack([one.matrix for one in steps])),
        strict=True,
    )


def _of_height(matrix: Matrix, height: int) -> Matrix:
    # The matrix, extended by empty rows for names that were added later.
    missing = height - matrix.shape[1]
    return matrix if not missing else numpy.concatenate([matrix, blank(missing)], axis=1)
