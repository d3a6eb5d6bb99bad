"""A run as plain data for JSON, with None for NaN and Inf."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy

from backprobe.charts.single import FIELDS, fields_of
from backprobe.charts.spark import ends
from backprobe.findings.report import Report
from backprobe.rules.alert import Alert
from backprobe.storage.runs.merged import LOGGED, RunReader


def of_report(report: Report) -> dict[str, Any]:
    """The alerts of a report as plain data."""
    return {"alerts": [{**one.to_dict(), "number": plain(one.number)} for one in report if isinstance(one, Alert)]}


def of_run(reader: RunReader) -> dict[str, Any]:
    """The steps of a run, those that were skipped, and for each name the first, last, smallest and largest rms or
    logged number.
    """
    info, rows = reader.info(), reader.rows()
    names: dict[str, dict[str, Any]] = {name: {} for name, _ in rows}
    for kind in dict.fromkeys(kind for _, kind in rows):
        own = reader.names_of(kind)
        field = LOGGED if kind == LOGGED else f"{kind}.rms"
        for name, numbers in zip(own, reader.field(own, field)[1], strict=True):
            known = numbers[~numpy.isnan(numbers)]
            if len(known):
                found = (*ends(known), known.min(), known.max())
                names[name][field] = dict(zip(("first", "last", "min", "max"), map(plain, found), strict=True))
    return {
        "steps": info["step"].tolist(),
        "skipped": info["step"][info["skipped"] > 0].tolist(),
        "names": names,
    }


def of_name(reader: RunReader, name: str) -> dict[str, Any]:
    """Return all fields of a name, at each step that has them."""
    read = {field: reader.field([name], field) for field in fields_of(reader, name, ("count", *FIELDS))}
    return {
        "name": name,
        "steps": next(iter(read.values()))[0].tolist(),
        "fields": {field: [plain(number) for number in grid[0]] for field, (_, grid) in read.items()},
    }


def of_step(step: int, rows: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return all fields of all names at one step."""
    found = {name: {field: plain(number) for field, number in own.items()} for name, own in rows.items()}
    return {"step": step, "names": found}


def plain(number: Any) -> float | None:
    """Return a number that JSON can store, or None for NaN and Inf.

    >>> plain(numpy.float64(1.5)), plain(math.nan)
    (1.5, None)
    """
    return float(number) if math.isfinite(number) else None
