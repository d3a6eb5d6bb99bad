"""A recording as a table: in a terminal, as plain text, in a notebook."""

from __future__ import annotations

import html as escaping
import io
import sys
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from backprobe.backends.discover import load_arrays
from backprobe.backends.tensors import Arrays
from backprobe.errors import Overwritten
from backprobe.findings.phrasing import listed, place, plural
from backprobe.record.entries import Entry, GradStatus, Record, plain_text
from backprobe.show.text import describe, outputs, path_sums, printable

COLUMNS = ("name", "value", "gradient", "source")


@dataclass(frozen=True)
class Row:
    """The cells of one entry, in the order of the columns, and whether it has its gradient."""

    cells: tuple[str, ...]
    ok: bool


def rows(record: Record) -> list[Row]:
    """One row for each tensor; other values share one line below the table."""
    backend = load_arrays(record.backend)
    return [_row(entry, backend) for entry in record.entries if entry.status is not GradStatus.NOT_TENSOR]


def _row(entry: Entry, backend: Arrays) -> Row:
    name = "\n= ".join(printable(name) for name in (entry.name, *entry.aliases[:3]))
    if len(entry.aliases) > 3:
        name += f"\n= and {plural(len(entry.aliases) - 3, 'more name')}"
    try:
        value = describe(entry.value, backend)
    except Overwritten:
        value = "not kept" if entry.held_value.why == entry.why else "overwritten"
    if entry.status is GradStatus.OK:
        gradient = describe(entry.grad, backend)
    else:
        gradient = f"{entry.status}: {entry.reason}" if entry.reason else str(entry.status)
    source = ""
    if entry.source is not None:
        statement = entry.source.text.replace("\n", " ")
        source = f"{place(entry.source.file, entry.source.line)}  {statement}"
    return Row((name, value, printable(gradient), printable(source)), entry.status is GradStatus.OK)


def footer(record: Record) -> list[str]:
    """The lines below the table: values that are not tensors, what was differentiated, and notes."""
    plain = [entry for entry in record.entries if entry.status is GradStatus.NOT_TENSOR]
    lines = []
    if plain:
        shown = [f"{entry.name} = {plain_text(entry.held_value)}" for entry in plain]
        lines.append(f"not tensors: {listed(shown, 12)}")
    lines.append(outputs(record))
    if record.path_sums is not None:
        lines.append(path_sums(record.path_sums))
    return [printable(line) for line in lines + [f"note: {note}" for note in record.notes]]


def rich_table(record: Record) -> Any:
    """The table for rich's own printing."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in COLUMNS:
        made.add_column(column, overflow="fold", no_wrap=column == "name")
    for row in rows(record):
        made.add_row(*map(Text, row.cells, ("cyan", "", "" if row.ok else "yellow", "dim")))
    return Group(made, *(Text(line, "dim") for line in footer(record)))


def text(record: Record) -> str:
    """The table as text: coloured and fitted to the width of a terminal, plain and not folded elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():  # None where a program has no console
        return plain(record)
    from rich.console import Console  # here, because importing rich takes longer than importing backprobe

    console = Console(file=io.StringIO(), force_terminal=True, highlight=False)
    with console.capture() as captured:
        console.print(rich_table(record))
    return captured.get().rstrip("\n")


def plain(record: Record) -> str:
    """The table in columns of spaces."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for row in rows(record):
        lines += zip_longest(*(cell.split("\n") for cell in row.cells), fillvalue="")
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return "\n".join([*shown, *footer(record)])


def html(record: Record) -> str:
    """The table for a notebook, self-contained."""
    head = "".join(f"<th style='text-align:left'>{column}</th>" for column in COLUMNS)
    body = ""
    for row in rows(record):
        body += "<tr>" + "".join(f"<td style='text-align:left'>{_cell(cell)}</td>" for cell in row.cells) + "</tr>"
    foot = "".join(f"<div>{escaping.escape(line)}</div>" for line in footer(record))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"


def _cell(text: str) -> str:
    return f"<code>{escaping.escape(text)}</code>".replace("\n", "<br>") if text else ""
