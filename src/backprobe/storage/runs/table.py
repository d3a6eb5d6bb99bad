"""A run as a table: a long table with all numbers, or a table of steps × names with a single field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from backprobe.record.statistics import COLUMNS, STATISTICS, statistic
from backprobe.storage.runs.merged import LOGGED, RunReader, logged


def table(reader: RunReader) -> dict[str, Any]:
    """Columns of equal length: step, name, kind and all statistics. Each name and kind that has numbers in a step gives
    one row.

    Logged numbers are in the column ``logged``, which is NaN for all other rows.
    """
    rows = list(reader.rows().values())
    steps, columns = reader.columns(rows, COLUMNS)
    where, when = numpy.nonzero(columns["count"])
    order = numpy.lexsort((where, when))
    where, when = where[order], when[order]
    held = {name: numbers[where, when] for name, numbers in columns.items()}
    names, kinds = numpy.array([row.name for row in rows], object), numpy.array([row.kind for row in rows], object)
    found: dict[str, Any] = {"step": steps[when], "name": names[where], "kind": kinds[where]}
    found |= {name: statistic(name, held) for name in STATISTICS}
    found["logged"] = numpy.where(found["kind"] == LOGGED, logged(held), numpy.nan)
    return found


def wide(reader: RunReader, names: Sequence[str], field: str) -> dict[str, Any]:
    """Columns of equal length: ``step``, and the field of each name, masked if the name has no row in a step.

    Steps in which none of the names has a row are left out. If a name is ``step`` itself, underscores are appended to
    the name of the first column.
    """
    steps, numbers = reader.field(names, field)
    _, counts = reader.field(names, f"{field.partition('.')[0]}.count")
    both = min(numbers.shape[1], counts.shape[1])  # a step may have been written between the two reads
    is_there = counts[:, :both] > 0
    kept = is_there.any(axis=0)
    step = "step"
    while step in names:
        step += "_"
    columns = numpy.ma.array(numbers[:, :both], mask=~is_there)[:, kept]
    return {step: steps[:both][kept], **dict(zip(names, columns, strict=True))}
