"""Queries of runs by DuckDB, and by Spark with the SQL of the documentation: the numbers of ``run.series``."""

import math
import re
import sqlite3
from pathlib import Path

import numpy
import pytest
from pyspark.sql import SparkSession

import backprobe as bp
from backprobe.storage.runs.layout import RowKey, StepData
from written_runs import matrix, row, rows, writer

PAGE = Path(__file__).parents[2] / "docs" / "watch.md"
STEPS = 1500
KEYS = [*rows(["h.0", "h.1"]), RowKey("w", "param", "once"), RowKey("odd", "grad"), RowKey("loss", "logged")]
ODD = [
    (math.nan,),
    (math.inf, 1.0),
    (-math.inf, math.inf),
    (0.0, -0.0),
    (-3.0, 2.0, 1e30),
    (1e200, 1e200),
    (-math.inf,),
]
LOGGED = [(1.0,), (math.nan,), (math.inf,), (-math.inf,), (math.inf, -math.inf), (2.0, 3.0), (-4.0,)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two processes, of which one lacks rows, with NaN, Inf and extremes, and what each has whole."""
    folder = tmp_path_factory.mktemp("sql") / "run"
    for rank in range(2):
        one = writer(folder, rank, started=1.0)
        one.add_rows(KEYS)
        for at in range(STEPS):
            made = matrix(10 * at + rank, len(KEYS), missing=[1] * (at % 5 == rank))
            made[:, 4] = matrix(10 * at, 1)[:, 0]  # the same in each
            made[:, 5], made[:, 6] = row(*ODD[at % 7]), row(*LOGGED[at % 7])
            one.append(StepData(at, made, time=float(at)))
        one.close()
    return bp.open_run(folder)


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    run.export(folder / "out")
    return folder / "out"


def same(table, run):
    """Are the numbers of a table those of the grids of a run?"""
    found = {name: table[name].to_pylist() for name in table.column_names}
    by_key = {}
    for at, key in enumerate(zip(found["name"], found["kind"], found["step"], strict=True)):
        by_key[key] = at
    assert len(by_key) == table.num_rows
    for field in run.fields:
        if field == "update.ratio":
            continue
        kind, _, column = field.rpartition(".") if field != "logged" else ("logged", "", "logged")
        names, steps, grid = run.grid(field)
        for name, numbers in zip(names, grid, strict=True):
            own, _ = run.series(name, field)
            for step in own.tolist():
                number = numbers[step]
                at = by_key[name, kind, step]
                other = found[column][at]
                if column in ("min", "max") and not found["finite"][at]:  # what changes nothing in a merge
                    assert abs(other) == math.inf and math.isnan(number)
                    continue
                assert other == number or (math.isnan(other) and math.isnan(number)), (field, name, step)


def test_duckdb_gives_the_numbers_of_the_run(run):
    same(run.sql("SELECT * FROM merged"), run)


def test_duckdb_gives_them_of_an_export(run, exported):
    with bp.open_run(exported) as again:
        same(again.sql("SELECT * FROM merged"), run)
        assert "_reader" not in vars(again)  # nothing was unpacked for it


def test_statistics_of_several_steps_are_merged(run):
    got = run.sql(
        "SELECT bp_rms(sum(squares), sum(finite)) AS rms, bp_absmax(min(min), max(max), sum(finite)) AS absmax "
        "FROM merged WHERE name = 'h.0' AND kind = 'value'"
    ).to_pylist()
    squares, finite = (run.series("h.0", f"value.{one}")[1].sum() for one in ("squares", "finite"))
    assert got[0]["rms"] == pytest.approx(math.sqrt(squares / finite), rel=1e-12)
    assert got[0]["absmax"] == run.series("h.0", "value.absmax")[1].max()


def test_the_tables_can_be_scanned_more_than_once_and_steps_are_there(run):
    got = run.sql(
        "SELECT count(*) AS n, min(time) AS least FROM rows a JOIN rows b USING (rank, step, name, kind) "
        "JOIN steps USING (rank, step)"
    )
    per_step = len(KEYS) * 2 * STEPS - sum(at % 5 in (0, 1) for at in range(STEPS))
    assert got.to_pylist() == [{"n": per_step, "least": 0.0}]


def sql_of_the_page():
    """The statements that docs/watch.md shows for engines other than DuckDB."""
    return [one.strip() for one in re.search(r"```sql\n(.*?)```", PAGE.read_text(), re.S)[1].split(";") if one.strip()]


@pytest.fixture(scope="module")
def spark():
    local = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in local.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_spark_gives_the_numbers_of_the_run(run, exported, spark):
    spark.read.parquet(str(exported / "rows")).createOrReplaceTempView("rows")
    for statement in sql_of_the_page():
        spark.sql(statement)
    same(spark.sql("SELECT * FROM merged").toArrow(), run)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("selec 1", "syntax error"),
        ("SELECT nothing FROM rows", "nothing"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT * FROM '/etc/passwd'", "passwd"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("COPY rows TO 'out.csv'", "disabled"),
        ("INSTALL httpfs", "disabled"),
        ("SET memory_limit = '99GB'", "locked"),
        ("", "nothing"),
        ("-- a comment", "nothing"),
        (7, "is a text"),
    ],
)
def test_a_query_that_is_refused(run, tmp_path, monkeypatch, query, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bp.BadOption, match=says):
        run.sql(query)
    assert not list(tmp_path.iterdir())


def test_a_cut_export_is_an_error(tmp_path, run):
    run.export(tmp_path / "out")
    file = tmp_path / "out" / "rows" / "rank=1" / "first_step=0" / "part.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 4 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 4)
    file.write_bytes(data)
    with bp.open_run(tmp_path / "out") as again, pytest.raises(bp.BadRun, match="is not a whole export"):
        again.sql("SELECT * FROM rows")


def test_an_empty_answer_has_columns(run):
    got = run.sql("SELECT step, rms FROM merged WHERE name = 'nobody'")
    assert (got.num_rows, got.column_names) == (0, ["step", "rms"])
    assert numpy.dtype(got.schema.field("rms").type.to_pandas_dtype()) == float


def test_a_damaged_run_is_an_error(tmp_path):
    one = writer(tmp_path / "run")
    one.add_rows(rows(["h.0"]))
    for at in range(40):
        one.append(StepData(at, matrix(at, 2)))
    one.close()
    connection = sqlite3.connect(tmp_path / "run" / "rank-0.sqlite")
    connection.execute("UPDATE columns SET data = zeroblob(length(data)) WHERE id = 7")
    connection.commit()
    connection.close()
    with pytest.raises(bp.BadRun), bp.open_run(tmp_path / "run") as run:
        run.sql("SELECT * FROM rows")
