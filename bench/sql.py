"""A run of 10^8 numbers, or so many, as Parquet and by SQL: seconds, and the most memory that each process took.

    python bench/sql.py
    python bench/sql.py 1e7

Each row is a process of its own, which imports nothing but what it needs. Where PySpark and Java are, Spark is asked
too, with the statements that docs/watch.md shows; all answers are compared with those of the run.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

NAMES, STATISTICS = 200, 10
QUERY = "SELECT name, sum(count) AS count, max(rms) AS most FROM merged WHERE kind = 'grad' GROUP BY name ORDER BY name"
PAGE = Path(__file__).parent.parent / "docs" / "watch.md"


def write(folder: Path, numbers: int) -> None:
    from backprobe.storage.runs.layout import RowKey, StepData
    from backprobe.storage.runs.writer import RunWriter

    rows = [RowKey(f"h.{at:03}.attn", kind) for at in range(NAMES) for kind in ("value", "grad")]
    random = numpy.random.default_rng(0)
    made = [random.normal(size=(STATISTICS, len(rows))) ** 2 for _ in range(64)]
    for matrix in made:
        matrix[:2], matrix[2:6] = 4096, 0
    writer = RunWriter(folder / "run", 0, {}, "bench")
    writer.add_rows(rows)
    for step in range(numbers // made[0].size):
        writer.append(StepData(step, made[step % 64] * (1 + step % 7)))
        if step % 100 == 0:
            writer.commit()
    writer.close()


def export(folder: Path) -> None:
    import backprobe as bp

    with bp.open_run(folder / "run") as run:
        run.export(folder / "out")


def unpacked(folder: Path) -> None:
    import backprobe as bp

    with bp.open_run(folder / "out") as again, bp.open_run(folder / "run") as run:
        assert numpy.array_equal(again.grid("grad.rms")[2], run.grid("grad.rms")[2])


def grid(folder: Path) -> None:
    import backprobe as bp

    with bp.open_run(folder / "run") as run:
        names, _, numbers = run.grid("grad.rms")
        most = numbers.max(axis=1)
        order = numpy.argsort(names)
        numpy.save(folder / "most.npy", most[order])


def by_duckdb(folder: Path, source: str) -> None:
    import backprobe as bp

    with bp.open_run(folder / source) as run:
        _check(folder, run.sql(QUERY))


def by_spark(folder: Path) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    local = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.log.level": "ERROR",
    }
    for name, value in local.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.read.parquet(str(folder / "out" / "rows")).createOrReplaceTempView("rows")
    for statement in re.search(r"```sql\n(.*?)```", PAGE.read_text(), re.S)[1].split(";"):
        if statement.strip():
            spark.sql(statement)
    _check(folder, spark.sql(QUERY).toArrow())


def _check(folder: Path, table) -> None:
    assert numpy.array_equal(table["most"].to_numpy(), numpy.load(folder / "most.npy"))


def main(numbers: int) -> None:
    print(f"{numbers:,} numbers of {NAMES} names; of Spark the memory of Python alone is counted")
    with tempfile.TemporaryDirectory() as folder:
        for what, call in (
            ("written by a watch", f"write(folder, {numbers})"),
            ("exported to Parquet", "export(folder)"),
            ("the grid of the run", "grid(folder)"),
            ("DuckDB on the run", "by_duckdb(folder, 'run')"),
            ("DuckDB on Parquet", "by_duckdb(folder, 'out')"),
            ("Spark on Parquet", "by_spark(folder)"),
            ("Parquet unpacked, and its grid", "unpacked(folder)"),
        ):
            code = f"import sql\nfrom pathlib import Path\nfolder = Path({folder!r})\nsql.timed(lambda: sql.{call})"
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent
            )
            last = (done.stdout or done.stderr).strip().rpartition("\n")[2]
            print(f"  {what:32} {last}", flush=True)
        for name in ("run", "out"):
            size = sum(one.stat().st_size for one in (Path(folder) / name).rglob("*") if one.is_file())
            print(f"  {name} on disk: {size >> 20} MB")


def timed(work) -> None:
    started = time.perf_counter()
    work()
    passed, most = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{passed:7.1f} s, {most >> 10:6} MB")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8)
