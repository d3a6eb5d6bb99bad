"""A run as SQL tables, with expressions that merge and read statistics, the same for every SQL engine.

The view of ``merged`` works as ``run.series`` does: statistics of values that processes share in parts are added up,
and those of values that each process holds whole are taken once. Each of ``STATISTICS`` is an expression over the ten
columns. It is NaN if there are no numbers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy

from backprobe.errors import BadOption, installed
from backprobe.exports import schema
from backprobe.exports.dataset import AT_ONCE, Texts, rows_table, steps_table
from backprobe.record.brief import cut, written
from backprobe.record.statistics import COLUMNS
from backprobe.storage.runs.merged import RunReader

MEMORY = "1GB"
"""The memory limit of the engine; more data goes to temporary files."""
EXAMPLE = "run.sql(\"SELECT step, rms FROM merged WHERE name = 'h.0' AND kind = 'grad' ORDER BY step\")"
NAN = "CAST('NaN' AS DOUBLE)"
STATISTICS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "bp_mean": (("sum", "finite"), f"CASE WHEN finite > 0 THEN sum / finite ELSE {NAN} END"),
    "bp_rms": (("squares", "finite"), f"CASE WHEN finite > 0 THEN sqrt(squares / finite) ELSE {NAN} END"),
    "bp_std": (
        ("sum", "squares", "finite"),
        "CASE WHEN finite > 0 THEN sqrt(greatest(squares / finite - (sum / finite) * (sum / finite), 0.0)) "
        f"ELSE {NAN} END",
    ),
    "bp_absmax": (("min", "max", "finite"), f"CASE WHEN finite > 0 THEN greatest(-min, max) ELSE {NAN} END"),
    "bp_logged": (
        ("sum", "finite", "nan", "posinf", "neginf"),
        f"CASE WHEN nan > 0 OR (posinf > 0 AND neginf > 0) THEN {NAN} WHEN posinf > 0 THEN CAST('Infinity' AS DOUBLE) "
        f"WHEN neginf > 0 THEN CAST('-Infinity' AS DOUBLE) WHEN finite > 0 THEN sum / finite ELSE {NAN} END",
    ),
}
"""For each macro: the columns that are its arguments, and its expression."""


def macros() -> Iterator[str]:
    """Yield the statements that define the statistics in DuckDB."""
    for name, (columns, expression) in STATISTICS.items():
        yield f"CREATE OR REPLACE MACRO {name}({', '.join(columns)}) AS {expression}"


def merged(first: str = "arg_min") -> str:
    """Return the statement for a view of all processes together.

    ``first`` is the SQL function that returns a column of the row in which another column is smallest: ``arg_min``, or
    ``min_by`` in other engines.
    """
    adds = {column: column if column in ("min", "max") else "sum" for column in COLUMNS}
    columns = [
        f"CASE WHEN merge = 'once' THEN {first}({column}, rank) ELSE {add}({column}) END AS {column}"
        for column, add in adds.items()
    ]
    added = f"SELECT step, name, kind, {', '.join(columns)} FROM rows GROUP BY step, name, kind, merge"
    read = [f"{name}({', '.join(own)}) AS {name[3:]}" for name, (own, _) in STATISTICS.items()]
    return f"CREATE OR REPLACE TEMPORARY VIEW merged AS SELECT *, {', '.join(read)} FROM ({added}) AS added"


def query(tables: Mapping[str, Any], text: Any, asked: str, reread: Callable[[], None]) -> Any:
    """Run a query in DuckDB, and return a ``pyarrow.Table``. Raises BadOption, NotInstalled, and BadRun.

    ``reread`` reads again what DuckDB reads lazily, and raises BadRun if that is damaged. It is needed because DuckDB
    reports that error only as text.
    """
    duckdb = installed("duckdb", asked="run.sql")
    if not isinstance(text, str):
        raise BadOption("a query is a text", asked=asked, found=written(text), next=EXAMPLE)
    with (
        tempfile.TemporaryDirectory(prefix="backprobe-sql-") as folder,
        duckdb.connect(
            config={
                "memory_limit": MEMORY,
                "temp_directory": folder,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
                "preserve_insertion_order": False,
            }
        ) as engine,
    ):
        for name, table in tables.items():
            engine.register(name, table)
        for statement in [*macros(), merged()]:
            engine.execute(statement)
        engine.execute("SET enable_external_access = false")  # a query may read this run, but no other files
        engine.execute("SET lock_configuration = true")
        try:
            answer = engine.sql(text)
            if answer is None:
                raise BadOption("a query that asks for nothing", asked=asked, next=EXAMPLE)
            return answer.to_arrow_table()
        except duckdb.Error as error:
            if isinstance(error, duckdb.InvalidInputException):  # for example an error while reading a table
                reread()
            raise BadOption(
                f"DuckDB refuses {cut(written(text))}",
                asked=asked,
                found=str(error).strip(),
                why="the tables are rows and steps; merged is a view of all processes as one",
                next=EXAMPLE,
            ) from error


class Stream:
    """The rows of a run, read again for each scan of the engine, about ``AT_ONCE`` rows at a time."""

    def __init__(self, reader: RunReader, arrow: Any) -> None:
        self.reader, self.arrow = reader, arrow
        self.schema = arrow.schema([*schema.rows(arrow), ("rank", arrow.int32())])

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        batches = self.arrow.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return batches.__arrow_c_stream__(requested_schema)

    def to_batches(self) -> Iterator[Any]:
        """Yield the rows as Arrow record batches. Raises BadRun."""
        for rank, file in self.reader.ranks.items():
            index = file.index()
            texts = Texts(self.arrow, list(index.keys), index)
            size = max(1, AT_ONCE // max(1, len(texts.keys)))
            for low in range(0, len(index.info), size):
                table = rows_table(file, texts, low, min(low + size, len(index.info)))
                number = self.arrow.array(numpy.full(len(table), rank, numpy.int32))
                yield from table.append_column("rank", number).to_batches()


def tables(reader: RunReader, asked: str) -> dict[str, Any]:
    """The tables of a run that ``bp.watch`` wrote."""
    arrow = installed("pyarrow", asked=asked)
    steps = []
    for rank, file in reader.ranks.items():
        index = file.index()
        table = steps_table(arrow, index, 0, len(index.info))
        steps.append(table.append_column("rank", arrow.array([rank] * len(table), arrow.int32())))
    return {"rows": Stream(reader, arrow), "steps": arrow.concat_tables(steps)}
