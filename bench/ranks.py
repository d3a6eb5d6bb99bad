"""A run of 1,024 simulated processes: seconds to open it, to judge it, to report it, and for the grid of a field.

    python bench/ranks.py
    python bench/ranks.py 64

Of 1,024 processes with 50 names and 200 steps one has gradients three times as large as its peers' and NaN in one, one
died in the middle, one came back after it had been away, and one has a clock that is an hour ahead. Processor time is
that of all threads of this process, which does not depend on what else the machine does.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from pathlib import Path

import numpy

import backprobe as bp
from backprobe.record.statistics import COLUMNS, measured
from backprobe.storage.runs.layout import RowKey, StepData
from backprobe.storage.runs.writer import RunWriter

NAMES, STEPS = 50, 200
SICK, DEAD, BACK, CLOCK = 37, 5, 6, 7


def write(folder: Path, ranks: int) -> None:
    random = numpy.random.default_rng(0)
    rows = [RowKey(f"h.{at}", "grad") for at in range(NAMES)]
    made = [numpy.array([measured(random.normal(size=64)) for _ in rows]).T for _ in range(8)]
    large = [numpy.array([measured(3 * random.normal(size=64)) for _ in rows]).T for _ in range(8)]
    sick = large[0].copy()
    sick[:, 3] = measured(numpy.array([1.0, math.nan]))
    for rank in range(ranks):
        writer = RunWriter(folder, rank, {"every": 1}, "bench")
        writer.add_rows(rows)
        for step in range(STEPS):
            if rank == DEAD % ranks and step == STEPS // 2:
                break
            if rank == BACK % ranks and STEPS // 4 <= step < STEPS // 2:
                continue
            matrix = (large if rank == SICK % ranks else made)[(step + rank) % len(made)]
            matrix = sick if rank == SICK % ranks and step == 120 else matrix
            late = 3600.0 * (rank == CLOCK % ranks)
            writer.append(StepData(step, matrix, 1e9 + step + late, backwards=1))
        if rank == DEAD % ranks:
            writer.commit()
            writer.abandon()
        else:
            writer.close()


def timed(what: str, work):
    started, busy = time.perf_counter(), time.process_time()
    found = work()
    print(f"  {what:20} {time.perf_counter() - started:6.1f} s, {time.process_time() - busy:6.1f} s of processor time")
    return found


def main(ranks: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), ranks)
        print(f"{ranks:,} processes of {len(COLUMNS)} statistics of {NAMES} names and {STEPS} steps")
        run = timed("opened", lambda: bp.open_run(folder))
        alerts = timed("alerts", lambda: run.alerts)
        timed("report", lambda: str(run.report()))
        timed("grid", lambda: run.grid("grad.rms"))
        timed("gaps", lambda: run.gaps)
        for one in alerts.findings[:4]:
            print(f"  {one}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1024)
