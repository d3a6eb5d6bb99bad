"""One name of a run over all steps, and one step of all names, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy

from backprobe.charts.overview import COLUMNS, alerted
from backprobe.charts.spark import ends, short, spark
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Report
from backprobe.storage.runs.merged import LOGGED, NOT_FINITE, RATIO, RunReader

FIELDS = ("rms", "mean", "min", "max", "zeros", "nan", "posinf", "neginf")
WIDE = 30
SHOWN = ("value.rms", "grad.rms", "param.rms", RATIO, LOGGED)


def one_name(reader: RunReader, name: str, report: Report) -> str:
    """Return text on one name: its alerts, and for each field with numbers a row of columns, with first, last and
    extreme number. Counts that are always 0 are left out.
    """
    fields = fields_of(reader, name, FIELDS)
    lines = [f"{'':<20} {'first':>8} {'magnitude over the steps':^{WIDE}} {'last':<8} {'most':<8}".rstrip()]
    lines += [line for field in fields for line in _series(reader, name, field)]
    said = list(alerted(report)) if report.findings else ["no alerts"]
    return "\n".join([name, *said, "", *lines])


def fields_of(reader: RunReader, name: str, statistics: Sequence[str]) -> list[str]:
    """The fields of a name with these statistics, and its ratio of updates. For a logged name, that field alone."""
    kinds = [kind for other, kind in reader.rows() if other == name]
    fields = [LOGGED] if kinds == [LOGGED] else [f"{kind}.{field}" for kind in kinds for field in statistics]
    return fields + [RATIO] * ({"update", "param"} <= set(kinds))


def alerts_of(name: str, report: Report) -> Report:
    """Return a report with only the alerts that mention a name."""
    about = [one for one in report.findings if one.name == name or any(repr(name) in fact for fact in one.facts)]
    return replace(report, heading=plural(len(about), "alert"), findings=tuple(about))


def _series(reader: RunReader, name: str, field: str) -> Iterator[str]:
    _, grid = reader.field([name], field)
    numbers = grid[0][~numpy.isnan(grid[0])]
    if not len(numbers) or (field.rpartition(".")[2] in (*NOT_FINITE, "zeros") and not numbers.any()):
        return
    first, last = ends(numbers)
    most = numbers[abs(numbers).argmax()]
    columns = spark(numbers, width=WIDE)
    yield f"{field:<20} {short(first):>8} {columns:<{WIDE}} {short(last):<8} {short(most):<8}".rstrip()


def one_step(heading: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    """Return a table of one step: a line for each name with the statistics in ``SHOWN``, and ``!`` after NaN or Inf."""
    fields = [field for field in SHOWN if any(field in own for own in rows.values())]
    room = COLUMNS - 13 * len(fields)
    lines = [heading, " " * room + "".join(f"{field:>13}" for field in fields)]
    for name, own in rows.items():
        label = name if len(name) < room else "…" + name[-room + 2 :]
        ill = any(own.get(f"{kind}.{one}") for kind in ("value", "grad", "param") for one in NOT_FINITE)
        numbers = "".join(f"{short(own.get(field, numpy.nan)):>13}" for field in fields)
        lines.append(f"{label:<{room}}{numbers}".rstrip() + (" !" if ill else ""))
    if any(line.endswith(" !") for line in lines):
        lines.append("! has NaN or Inf, which rms leaves out")
    return "\n".join(lines)
