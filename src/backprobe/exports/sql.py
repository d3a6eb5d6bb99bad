"""A run as tables of SQL, and how statistics are merged and read in it: the same expressions for every engine.

``MERGED`` adds up what is part of a whole, and takes once what each process has whole, as ``run.series`` does. Each of
``STATISTICS`` is an expression of the ten columns: NaN where there are no numbers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy

from backprobe.errors import BadOption, installed
from backprobe.exports import schema
from backprobe.exports.dataset import AT_ONCE, Texts, rows_table
from backprobe.record.brief import cut, written
from backprobe.record.statistics import COLUMNS
from backprobe.storage.runs.layout import INFO
from backprobe.storage.runs.merged import RunReader

MEMORY = "1GB"
"""What an engine may hold at once: more goes to temporary files."""
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
"""By the name of a macro: the columns that it takes, and its expression."""


def macros() -> Iterator[str]:
    """What makes the statistics known to DuckDB."""
    for name, (columns, expression) in STATISTICS.items():
        yield f"CREATE OR REPLACE MACRO {name}({', '.join(columns)}) AS {expression}"


def merged(first: str = "arg_min") -> str:
    """A view of all processes as one; ``first`` gives what a column is where another is least, ``min_by`` elsewhere."""
    adds = {column: column if column in ("min", "max") else "sum" for column in COLUMNS}
    columns = [
        f"CASE WHEN merge = 'once' THEN {first}({column}, rank) ELSE {add}({column}) END AS {column}"
        for column, add in adds.items()
    ]
    added = f"SELECT step, name, kind, {', '.join(columns)} FROM rows GROUP BY step, name, kind, merge"
    read = [f"{name}({', '.join(own)}) AS {name[3:]}" for name, (own, _) in STATISTICS.items()]
    return f"CREATE OR REPLACE TEMPORARY VIEW merged AS SELECT *, {', '.join(read)} FROM ({added}) AS added"


def query(tables: Mapping[str, Any], text: Any, asked: str, reread: Callable[[], None]) -> Any:
    """The answer of DuckDB, as a ``pyarrow.Table``. Raises BadOption, NotInstalled, and BadRun for a damaged run.

    ``reread`` reads all of the tables, and raises BadRun where one is damaged: DuckDB has the error as a text.
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
        engine.execute("SET enable_external_access = false")  # a query reads this run, and no files
        engine.execute("SET lock_configuration = true")
        try:
            answer = engine.sql(text)
            if answer is None:
                raise BadOption("a query that asks for nothing", asked=asked, next=EXAMPLE)
            return answer.to_arrow_table()
        except duckdb.Error as error:
            if isinstance(error, duckdb.InvalidInputException):  # such as an error of reading a table
                reread()
            raise BadOption(
                f"DuckDB refuses {cut(written(text))}",
                asked=asked,
                found=str(error).strip(),
                why="the tables are rows and steps; merged is a view of all processes as one",
                next=EXAMPLE,
            ) from error


class Stream:
    """The rows of a run, read anew each time that an engine scans them, some thousand steps at once."""

    def __init__(self, reader: RunReader, arrow: Any) -> None:
        self.reader, self.arrow = reader, arrow
        self.schema = arrow.schema([*schema.rows(arrow), ("rank", arrow.int32())])

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        batches = self.arrow.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return batches.__arrow_c_stream__(requested_schema)

    def to_batches(self) -> Iterator[Any]:
        """The rows as Arrow's record batches. Raises BadRun."""
        for rank, file in self.reader.ranks.items():
            index = file.index()
            texts = Texts(self.arrow, list(index.keys), index)
            size = max(1, AT_ONCE // max(1, len(texts.keys)))
            for low in range(0, len(index.info), size):
                table = rows_table(file, texts, low, min(low + size, len(index.info)))
                number = self.arrow.array(numpy.full(len(table), rank, numpy.int32))
                yield from table.append_column("rank", number).to_batches()


def tables(reader: RunReader, asked: str) -> dict[str, Any]:
    """The tables of a run that is written by a watch."""
    arrow = installed("pyarrow", asked=asked)
    steps = []
    for rank, file in reader.ranks.items():
        index = file.index()
        columns = {"attempt": index.attempt_of, **{name: index.info[name].copy() for name in INFO.names or ()}}
        table = arrow.table(columns).cast(schema.steps(arrow))
        steps.append(table.append_column("rank", arrow.array([rank] * len(table), arrow.int32())))
    return {"rows": Stream(reader, arrow), "steps": arrow.concat_tables(steps)}
