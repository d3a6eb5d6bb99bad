"""Recordings as columns, and columns as data frames (through Arrow) or CSV files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from backprobe.backends.discover import load_arrays
from backprobe.backends.tensors import Arrays
from backprobe.errors import installed
from backprobe.record.disk import unwritable, write_whole
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.held import Lost
from backprobe.show.text import printable

FRAMES = ("pandas", "polars")
Columns = Mapping[str, Any]


def frame(columns: Callable[[], Columns], asked: str, index: str = "") -> Any:
    """A data frame of pandas, or of Polars if only Polars is installed. Raises NotInstalled.

    In pandas the first column becomes the index, if ``index`` gives it a name.
    """
    name = next((name for name in FRAMES if _is_there(name)), FRAMES[0])
    library = installed(name, asked=asked, packages=f"{name} pyarrow")
    arrow = installed("pyarrow", asked=asked)
    held = columns()
    table = arrow.table({name: arrow.array(column, _kind(arrow, name, column)) for name, column in held.items()})
    if name == "polars":
        return library.from_arrow(table)
    made = table.to_pandas()
    whole = [one for one in table.column_names if table[one].null_count and arrow.types.is_integer(table[one].type)]
    # without this, a missing line number would turn all line numbers into floats
    made = made.astype(dict.fromkeys(whole, "Int64"))
    return made.set_index(table.column_names[0]).rename_axis(index) if index else made


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # a module in ``sys.modules`` may lack the attributes of a real package
        return False


def _kind(arrow: Any, name: str, column: Any) -> Any:
    # The type of a column that is a list, which may be empty or contain only None. Arrays have their own types.
    if not isinstance(column, list):
        return None
    texts = ("name", "status", "reason", "shape", "dtype", "device", "op", "file", "code", "source", "target")
    return (
        arrow.string()
        if name in texts
        else (arrow.int64() if name == "line" or name.startswith("axis_") else arrow.float64())
    )


def columns_of(record: Record) -> Columns:
    """The columns of a recording, with a row for each entry. Unknown values are None."""
    from backprobe.record.statistics import STATISTICS

    arrays, entries = load_arrays(record.backend), record.entries
    found: dict[str, Any] = {
        "name": [printable(entry.name) for entry in entries],
        "status": [str(entry.status) for entry in entries],
        "reason": [printable(entry.reason) or None for entry in entries],
        "shape": [None if entry.shape is None else str(tuple(entry.shape)) for entry in entries],
        "dtype": [entry.dtype for entry in entries],
        "device": [entry.device for entry in entries],
        "op": [printable(entry.op) or None for entry in entries],
        "file": [entry.source and printable(entry.source.file) for entry in entries],
        "line": [entry.source and entry.source.line for entry in entries],
        "code": [entry.source and printable(entry.source.text.strip()) for entry in entries],
    }
    for kind, held in (("value", [*map(_value, entries)]), ("grad", [entry.grad_or_none for entry in entries])):
        measured = [_statistics(tensor, arrays) for tensor in held]
        found |= {f"{kind}.{one}": [own.get(one) for own in measured] for one in STATISTICS}
    return found


def _value(entry: Entry) -> Any:
    held = None if entry.status is GradStatus.NOT_TENSOR else entry.held
    return None if isinstance(held, Lost) else held


def _statistics(tensor: Any, arrays: Arrays) -> Mapping[str, float]:
    # All statistics of a tensor; empty if its numbers cannot be read.
    import numpy

    from backprobe.record.statistics import CHUNK, COLUMNS, NOTHING, STATISTICS, measured, merged, statistic

    numbers = arrays.array(tensor) if arrays.is_tensor(tensor) else None
    if numbers is None:
        return {}
    with numpy.errstate(all="ignore"):
        real = numpy.abs(numbers) if numbers.dtype.kind == "c" else numbers
        flat = real.astype(numpy.promote_types(real.dtype, numpy.float32), copy=False).reshape(-1)
    row = reduce(merged, [measured(flat[at : at + CHUNK]) for at in range(0, flat.size, CHUNK)], NOTHING)
    columns = {column: numpy.array([number]) for column, number in zip(COLUMNS, row, strict=True)}
    return {name: float(statistic(name, columns)[0]) for name in STATISTICS} | {"count": row[0]}


def write_csv(columns: Columns, path: str | os.PathLike[str]) -> None:
    """Write columns as a CSV file. If that fails, an existing file stays unchanged. Raises BadOption."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([columns, *zip(*columns.values(), strict=True)])
    target = Path(path)
    try:
        write_whole(target, text.getvalue().encode())
    except OSError as error:
        raise unwritable(
            "the table",
            target,
            error,
            asked=f"rec.to_csv({str(path)!r})",
            call="rec.to_csv({!r})",
            smaller="another disk",
        ) from error
