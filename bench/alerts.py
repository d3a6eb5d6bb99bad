"""Alerts: a long run judged from the beginning, and one more step of it.

    python bench/alerts.py [STEPS]

The run has 1,000 rows, of 400 names: values and gradients of 200 modules, and gradients, numbers and updates of their
200 weights, over 100,000 steps by default (3.3 GB, written to a temporary folder). Its numbers are drawn at random, and
nothing is wrong with them. The floor is to read once the two columns that the rules need of every name and that change
from step to step: the sums and the squares.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy

import backprobe as bp
from backprobe.record.statistics import COLUMNS
from backprobe.rules.judge import BLOCK
from backprobe.storage.runs.layout import RowKey, StepData
from backprobe.storage.runs.merged import RunReader
from backprobe.storage.runs.writer import RunWriter

MODULES, STEPS, MORE, EVERY = 200, 100_000, 20, 100
NEEDED = ("sum", "squares")


def main(steps: int) -> None:
    rows = list(_rows())
    print(f"{steps:,} steps of {len(rows) - 1:,} rows: {(len(rows) - 1) * steps:,} statistics of ten columns")
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter(Path(folder), 0, {}, "bench")
        writer.add_rows(rows)
        made = list(_steps(rows))
        for at in range(steps):
            _append(writer, made, at)
        writer.commit()
        with bp.open_run(folder) as run:
            _show("floor: two columns of all rows, read", lambda: _read(run._reader, rows, steps))
            _show("judged from the beginning", lambda: run.alerts)
            print(f"    {run.alerts.heading}")
            passed, busy = [], []
            for at in range(steps, steps + MORE):
                _append(writer, made, at)
                writer.commit()
                began = time.perf_counter(), time.process_time()
                assert "alert" in run.alerts.heading
                passed.append(1e3 * (time.perf_counter() - began[0]))
                busy.append(1e3 * (time.process_time() - began[1]))
            middle = f"{statistics.median(passed):8.1f} ms, {statistics.median(busy):8.1f} ms of processor time"
            print(f"  {'a new step, the middle of ' + str(MORE):40} {middle}")
        writer.close()


def _rows() -> Iterator[RowKey]:
    for at in range(MODULES):
        yield from (RowKey(f"h.{at}.fc", kind) for kind in ("value", "grad"))
    for at in range(MODULES):
        yield from (RowKey(f"h.{at}.fc.weight", kind, "once") for kind in ("grad", "param", "update"))
    yield RowKey("loss", "logged")


def _steps(rows: list[RowKey]) -> Iterator[Any]:
    # Steps in which no rule finds anything: about as many numbers above as below zero, and updates of a thousandth.
    random = numpy.random.default_rng(0)
    sizes = numpy.exp(random.uniform(-1, 1, len(rows))) ** 2
    for _ in range(64):
        one = random.normal(size=(len(COLUMNS), len(rows)))
        one[:2], one[2:6] = 4096, 0
        one[7], one[8], one[9] = (
            4096 * sizes * (0.9 + 0.1 * random.random(len(rows))),
            -9 - one[8] ** 2,
            9 + one[9] ** 2,
        )
        one[7, [row.kind == "update" for row in rows]] *= 1e-6
        yield one


def _append(writer: RunWriter, made: list[Any], at: int) -> None:
    matrix = made[(7 * at + at // len(made)) % len(made)]
    loss = 0.2 + 3 * math.exp(-at / 100) + matrix[6, 0] / 100
    matrix[:, -1] = (1, 1, 0, 0, 0, 0, loss, loss**2, loss, loss)
    writer.append(StepData(at, matrix.copy(), backwards=1))
    if at % EVERY == 0:
        writer.commit()


def _read(reader: RunReader, rows: list[RowKey], steps: int) -> None:
    keys = [(row.name, row.kind) for row in rows]
    for low in range(0, steps, BLOCK):
        for column in NEEDED:
            reader.narrow(rows, keys, column, low, min(low + BLOCK, steps))


def _show(what: str, work: Callable[[], Any]) -> None:
    started, busy = time.perf_counter(), time.process_time()
    work()
    passed, busy = time.perf_counter() - started, time.process_time() - busy
    print(f"  {what:40} {passed:8.2f} s, {busy:8.2f} s of processor time", flush=True)


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else STEPS)
