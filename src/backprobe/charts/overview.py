"""A run as text: its alerts, its module tree with the rms over the steps, and gradients across the layers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import numpy

from backprobe.charts.spark import LEVELS, WIDTH, Matrix, ends, levels, short, spark
from backprobe.charts.tree import Line, lines, tree
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Report
from backprobe.storage.runs.merged import LOGGED, NOT_FINITE, RunReader

COLUMNS = 80
MOST = 40  # the largest number of lines of a module tree
MOST_GAPS = 6
SIDE = 9  # width in characters of the numbers left and right of a row of columns
DEEP = 60  # the largest number of columns in the chart across the layers
MODULES = {"value": "value", "grad": "gradient"}
OWN = {"param": "parameter", "grad": "gradient"}


class Pictured:
    """One statistic of a run, drawn for each name as a row of small columns."""

    def __init__(self, reader: RunReader, kind: str, names: Sequence[str]) -> None:
        self.names = {name: at for at, name in enumerate(names)}
        statistic = LOGGED if kind == LOGGED else f"{kind}.rms"
        self.steps, self.numbers = reader.field(names, statistic)
        self.ill: Matrix = numpy.zeros_like(self.numbers)
        for field in NOT_FINITE if kind != LOGGED else ():
            _, counts = reader.field(names, f"{kind}.{field}")
            there = min(counts.shape[1], self.ill.shape[1])  # the run may get another step between the two reads
            self.ill[:, :there] += numpy.nan_to_num(counts)[:, :there]

    def cell(self, name: str | None) -> str:
        """The table cell of a name: first number, row of columns, last number, padded to a fixed width."""
        if name not in self.names:
            return " " * (2 * SIDE + WIDTH)
        at = self.names[name]
        there = ~numpy.isnan(self.numbers[at]) | (self.ill[at] > 0)
        first, last = ends(self.numbers[at])
        columns = spark(self.numbers[at][there], self.ill[at][there])
        return f"{short(first):>{SIDE - 1}} {columns:<{WIDTH}} {short(last):<{SIDE - 1}}"


def overview(reader: RunReader, heading: str, report: Report, gaps: Report) -> str:
    """The overview of the whole run as text."""
    parts = [[heading], list(alerted(report))]
    if gaps.findings:
        kept = gaps.findings[:MOST_GAPS]
        hidden = [f"{plural(len(gaps.findings) - MOST_GAPS, 'more gap')}: run.gaps"] * (len(gaps.findings) > MOST_GAPS)
        parts.append(list(alerted(Report(plural(len(gaps.findings), "gap"), kept, tuple(hidden)))))
    rows = reader.rows()
    named = [row.name for row in rows.values() if row.kind == LOGGED]
    if named:
        logged = Pictured(reader, LOGGED, named)
        parts.append([_line(Line(name, name, 0), [logged]) for name in named])
    own = reader.parameters()
    modules = [name for name in dict.fromkeys(name for name, _ in rows) if name not in own and name not in named]
    parts.append(list(_table(reader, modules, MODULES)))
    if len(own) <= MOST:
        parts.append(list(_table(reader, [*own], OWN)))
    else:
        parts.append([f"{plural(len(own), 'parameter')}: --name {next(iter(own))} shows one of them"])
    parts.append(list(_flow(reader, modules or [*own])))
    return "\n\n".join("\n".join(part) for part in parts if part)


def alerted(report: Report) -> Iterator[str]:
    """Yield the lines of the alerts, wrapped at ``COLUMNS`` characters."""
    words = str(report).split("\n")
    for line in words:
        indent = len(line) - len(line.lstrip())
        label, _, _ = line.lstrip().partition("  ")
        extra = 7 if label in ("seen:", "next:") else 3 if label[:1].isdigit() else 2
        yield from textwrap.wrap(
            line, COLUMNS, subsequent_indent=" " * (indent + extra), break_long_words=False, break_on_hyphens=False
        )


def _table(reader: RunReader, names: Sequence[str], kinds: dict[str, str]) -> Iterator[str]:
    # Yield the lines of a tree of names, with up to two statistics for each.
    there = {kind for name, kind in reader.rows() if name in set(names)}
    shown = [kind for kind in kinds if kind in there]
    if not shown:
        return
    pictured = [Pictured(reader, kind, [name for name in names if (name, kind) in reader.rows()]) for kind in shown]
    titles = "".join(f"{'rms of ' + kinds[kind]:^{2 * SIDE + WIDTH}}" for kind in shown)
    yield f"{'over the steps':<{COLUMNS - len(titles)}}{titles}".rstrip()
    below = [Line(name, name, 0) for name in names] if kinds is OWN else lines(tree(names), MOST)
    for line in below[:MOST]:
        yield _line(line, pictured)
    hidden = len(below[MOST:]) + sum(line.hidden for line in below)
    if hidden:
        yield f"{plural(hidden, 'name')} below these: --name shows one of them"


def _line(line: Line, pictured: Sequence[Pictured]) -> str:
    cells = "".join(one.cell(line.name) for one in pictured)
    label = "  " * line.depth + line.label + (f" +{line.hidden}" if line.hidden else "")
    room = COLUMNS - len(cells)
    return (f"{label if len(label) < room else label[: room - 2] + '…':<{room}}{cells}").rstrip()


def _flow(reader: RunReader, names: Sequence[str]) -> Iterator[str]:
    # Yield the rms of the gradients across the layers, at the first, middle and last step, with one common scale.
    names = [name for name in names if (name, "grad") in reader.rows()]
    names = [name for name in names if not any(other.startswith(f"{name}.") for other in names)] or names
    if len(names) < 3:
        return
    steps, grid = reader.field(names, "grad.rms")
    measured = numpy.flatnonzero(~numpy.isnan(grid).all(axis=0))
    chosen = [int(at) for at in dict.fromkeys(measured[[0, len(measured) // 2, -1]])] if len(measured) else []
    known = grid[:, chosen]
    known = known[numpy.isfinite(known) & (known > 0)]
    if not len(known):
        return
    low, high = float(known.min()), max(float(known.max()), 2 * float(known.min()))
    yield f"rms of the gradient across depth, from {names[0]} to {names[-1]}, on one scale:"
    yield f"{LEVELS[0]} is {short(low)}, {LEVELS[-1]} is {short(high)}"
    for at in chosen:
        yield f"step {steps[at]:<9}{levels(_thinned(grid[:, at]), low, high)}".rstrip()


def _thinned(numbers: Matrix) -> Matrix:
    # Pick evenly spaced numbers if there are more than fit into a line.
    return numbers if len(numbers) <= DEEP else numbers[numpy.linspace(0, len(numbers) - 1, DEEP).astype(int)]
