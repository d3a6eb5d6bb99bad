"""Runs on disk: how fast steps are appended, and how long it takes to read 10^8 numbers in three ways.

    python bench/runs.py

The numbers are those of 200 names with values and gradients, ten columns each, drawn at random; counts are as most
tensors have them, all finite. Beside it stand the same numbers as one blob a step in a table of SQLite, and the floor:
the same bytes written to a file of their own and read back as one array, of which one row is taken.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import backprobe as bp
from backprobe.record.statistics import COLUMNS
from backprobe.storage.runs.layout import RowKey, StepData
from backprobe.storage.runs.writer import RunWriter

NAMES, EVERY = 200, 100
NUMBERS, RANKS = 10**8, 1_024


def main(numbers: int) -> None:
    rows = [RowKey(f"h.{at}.attn", kind) for at in range(NAMES) for kind in ("value", "grad")]
    steps = numbers // (len(rows) * len(COLUMNS))
    random = numpy.random.default_rng(0)
    made = [_matrix(random, len(rows)) for _ in range(64)]
    print(f"{steps:,} steps of {len(rows)} rows: {steps * made[0].size:,} numbers")
    with tempfile.TemporaryDirectory() as folder:
        run, plain = Path(folder) / "run", Path(folder) / "plain"
        rate = _rate(steps * made[0].size, lambda: _write(run, rows, made, steps))
        size = sum(one.stat().st_size for one in run.iterdir())
        print(f"  appended, a commit each {EVERY} steps      {rate}, {size >> 20} MB")
        rate = _rate(steps * made[0].size, lambda: _write_blobs(Path(folder) / "blobs", made, steps))
        print(f"  beside: a plain SQLite blob a step      {rate}")
        rate = _rate(steps * made[0].size, lambda: _write_plain(plain, made, steps))
        print(f"  floor: the same to a plain file         {rate}")
        opened = bp.open_run(run)
        _show("opened, and its steps counted", lambda: len(bp.open_run(run).steps))
        _show("one name over all steps", lambda: opened.series("h.100.attn", "grad.rms"))
        _show("all names at a step", lambda: opened.at(steps // 2))
        _show("the grid, names × steps", lambda: opened.grid("grad.rms"))
        stored = numpy.memmap(plain, mode="r", shape=(steps, *made[0].shape))
        _show("floor: one row of a plain file", lambda: stored[:, 7, 200].copy())
        _show("floor: two columns of a plain file", lambda: (stored[:, 1, 1::2].copy(), stored[:, 7, 1::2].copy()))


def ranks(count: int = RANKS, names: int = NAMES, steps: int = 1_000) -> None:
    """The grid of a run of many processes; the files of some are links to those of others, so they lie in the cache."""
    rows = [RowKey(f"h.{at}.attn", "grad") for at in range(names)]
    random = numpy.random.default_rng(0)
    made = [_matrix(random, names) for _ in range(8)]
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(min(8, count)):
            writer = RunWriter(Path(folder), rank, {}, "bench")
            writer.add_rows(rows)
            for step in range(steps):
                writer.append(StepData(step, made[(step + rank) % len(made)]))
            writer.close()
        for rank in range(8, count):
            (Path(folder) / f"rank-{rank}.sqlite").hardlink_to(Path(folder) / f"rank-{rank % 8}.sqlite")
        print(f"{count:,} processes of {names} names and {steps:,} steps")
        started = time.process_time()
        bp.open_run(folder).grid("grad.rms")
        print(f"  {'the grid, names × steps, processor time':40} {(time.process_time() - started) * 1e3:8.1f} ms")


def _matrix(random: Any, height: int) -> Any:
    matrix = random.normal(size=(len(COLUMNS), height)) ** 2
    matrix[:2], matrix[2:6] = 4096, 0
    return matrix


def _write(folder: Path, rows: list[RowKey], made: list[Any], steps: int) -> None:
    writer = RunWriter(folder, 0, {}, "bench")
    writer.add_rows(rows)
    for number in range(steps):
        writer.append(StepData(number, made[number % len(made)]))
        if number % EVERY == 0:
            writer.commit()
    writer.close()


def _write_blobs(file: Path, made: list[Any], steps: int) -> None:
    connection = sqlite3.connect(file, isolation_level=None)
    for setting in ("page_size = 16384", "journal_mode = WAL", "synchronous = NORMAL"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute("CREATE TABLE steps (id INTEGER PRIMARY KEY, data BLOB)")
    for first in range(0, steps, EVERY):
        connection.execute("BEGIN")
        for number in range(first, min(first + EVERY, steps)):
            connection.execute("INSERT INTO steps VALUES (?, ?)", (number, made[number % len(made)].tobytes()))
        connection.execute("COMMIT")
    connection.close()


def _write_plain(file: Path, made: list[Any], steps: int) -> None:
    with file.open("wb") as opened:
        for number in range(steps):
            opened.write(made[number % len(made)].tobytes())


def _rate(numbers: int, work: Callable[[], Any]) -> str:
    """Millions of numbers a second, of time that passes and of processor time."""
    started, busy = time.perf_counter(), time.process_time()
    work()
    passed, busy = time.perf_counter() - started, time.process_time() - busy
    return f"{numbers / passed / 1e6:6.0f} M numbers/s, {numbers / busy / 1e6:6.0f} M per second of processor time"


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _show(what: str, work: Callable[[], Any]) -> None:
    print(f"  {what:40} {min(_seconds(work) for _ in range(3)) * 1e3:8.1f} ms")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else NUMBERS)
    ranks()
