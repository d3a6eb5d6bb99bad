"""A run as one long table, for Arrow and Parquet."""

from __future__ import annotations

from typing import Any

import numpy

from backprobe.record.statistics import COLUMNS, STATISTICS, statistic
from backprobe.storage.runs.merged import LOGGED, RunReader, logged


def table(reader: RunReader) -> dict[str, Any]:
    """Columns of equal length: step, name, kind, and all statistics; one row for each row of each step.

    What was logged has its number as ``logged``, which is NaN for all others.
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
