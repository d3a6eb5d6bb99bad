"""A recording as a table, for terminals, plain text and notebooks."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from backprobe.backends.discover import load_arrays
from backprobe.backends.tensors import Arrays
from backprobe.errors import Overwritten
from backprobe.findings.phrasing import listed, plural
from backprobe.findings.wrapping import wrapped
from backprobe.markup import Html, element, shown
from backprobe.markup import row as html_row
from backprobe.markup import table as html_table
from backprobe.record.brief import place
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.held import plain_text
from backprobe.record.reasons import NOT_FETCHED
from backprobe.show.columns import ALIAS, GAP, Forms, TableColumns, TableRow, cut, elided
from backprobe.show.number_table import more
from backprobe.show.printing import echo
from backprobe.show.progress import NO_CODES
from backprobe.show.text import forms, keys_shown, outputs, path_sums, printable

MOST_ROWS = 60  # the most rows that are printed by default
Style = dict[str, Any]  # keyword arguments of ``click.style``
NAME, MISSING, DIM = Style(fg="cyan"), Style(fg="yellow"), Style(dim=True)


def rows(record: Record, most: int | None) -> tuple[list[TableRow], list[TableRow], int]:
    """The rows at the beginning and end of a table with at most ``most`` rows, and the number of entries between them.

    Each tensor has its own row. Other values share one line below the table.
    """
    arrays = load_arrays(record.backend)
    entries = [entry for entry in record.entries if entry.status is not GradStatus.NOT_TENSOR]
    left = 0 if most is None else max(len(entries) - most, 0)
    last = 0 if not left or most is None else most // 2
    first = len(entries) - left - last
    keys = keys_shown(record)
    head = [_row(entry, arrays, keys) for entry in entries[:first]]
    return head, [_row(entry, arrays, keys) for entry in entries[len(entries) - last :]], left


def _row(entry: Entry, arrays: Arrays, keys: Sequence[str]) -> TableRow:
    names = [printable(name) for name in (entry.name, *entry.aliases[:3])]
    if len(entry.aliases) > 3:
        names.append(f"and {plural(len(entry.aliases) - 3, 'more name')}")
    try:
        value = forms(entry.value, arrays)
    except Overwritten:
        why = entry.held.why
        lost = "not kept" if why == entry.why or why.code in NOT_FETCHED else "overwritten"
        value = lost, lost, lost
    several = tuple([_gradient(entry.of_output(key), arrays, "") for key in keys])
    where = statement = ""
    if entry.source is not None:
        where = printable(place(entry.source.file, entry.source.line))
        statement = printable(entry.source.text.replace("\n", " "))
    own = (names[0], *(ALIAS + name for name in names[1:]))
    gradients = several or (_gradient(entry, arrays, entry.reason),)
    return TableRow(own, value, gradients, where, statement, entry.status is GradStatus.OK)


def _gradient(entry: Entry, arrays: Arrays, reason: str) -> Forms:
    # The gradient of one output, or the status of a missing gradient. Only the longest form includes the reason.
    if entry.status is GradStatus.OK:
        return forms(entry.grad, arrays)
    status = str(entry.status)
    return printable(f"{status}: {reason}" if reason else status), status, status


def titles(record: Record) -> tuple[str, ...]:
    """The titles of the columns. Each of several outputs has its own column. The title of the source column is empty if
    no entry has a source.
    """
    gradients = map(printable, keys_shown(record)) if record.by_output else ("gradient",)
    return "name", "value", *gradients, "source" * any(entry.source is not None for entry in record.entries)


def footer(record: Record) -> list[str]:
    """The lines below the table: values that are not tensors, replaced names, outputs, sums of partials, and notes."""
    plain = [entry for entry in record.entries if entry.status is GradStatus.NOT_TENSOR]
    lines = []
    if plain:
        shown = [f"{entry.name} = {plain_text(entry.held)}" for entry in plain]
        lines.append(f"not tensors: {listed(shown, 12)}")
    for label, changed in (
        ("replaced", [entry.name for entry in record.entries if entry.replaced]),
        ("gradient replaced", [entry.name for entry in record.entries if entry.replaced_grad]),
    ):
        if changed:
            lines.append(f"{label}: {listed(changed, 12)}")
    lines.append(outputs(record))
    unnamed = [one for one in record.passes if one.output in keys_shown(record) and "()" in one.output]
    lines += [f"{one.output}: {one}" for one in unnamed]
    if record.path_sums is not None:
        lines.append(path_sums(record.path_sums))
    sums = [(key, record.by_output[key].path_sums) for key in keys_shown(record)]
    lines += [f"{key}: {path_sums(found)}" for key, found in sums if found]
    return [printable(line) for line in lines + [f"note: {note}" for note in record.notes]]


@dataclass(frozen=True)
class ForRich:
    """The table for printing with rich, fitted to the width of the console."""

    record: Record

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text  # must be installed, because only rich calls this method

        yield Text.from_ansi(fitted(self.record, MOST_ROWS, options.max_width))


def fitted(record: Record, most: int | None, width: int) -> str:
    """The table in colour, with lines of at most this width."""
    head, tail, left = rows(record, most)
    columns = TableColumns.fitting([*head, *tail], width, titles(record))
    names = iter(elided([name for row in (*head, *tail) for name in row.names], columns.name))
    lines = [_styled([(" " * GAP).join(columns.titles).rstrip()], [{"bold": True}], width)]
    for row in (*head, None, *tail):
        if row is None:
            lines += [_styled([more(left)], [DIM], width)] if left else []
            continue
        cells = columns.cells(row, next(names))
        spaced = [cell + " " * GAP for cell in cells[:-1]] + [cells[-1].rstrip()]
        lines.append(_styled(spaced, [NAME, {}, *({} if row.ok else MISSING for _ in row.gradients), DIM], width))
        lines += [_styled([next(names)], [NAME], width) for _ in row.names[1:]]
    below = [line for words in footer(record) for line in wrapped(words, width).split("\n")]
    return "\n".join([*lines, *(_styled([line], [DIM], max(width, len(line))) for line in below)])


def _styled(texts: Sequence[str], styles: Sequence[Style], width: int) -> str:
    # One line, cut at the width of the terminal.
    from click import style  # imported here, because importing backprobe must not import click

    made = ""
    for text, own in zip(texts, styles, strict=False):
        shown = text if len(text) <= width else cut(text, width)
        made += style(shown, **own) if own and shown else shown
        width -= len(shown)
    return made


def show(record: Record, most: int | None) -> None:
    """Print the table; in a notebook, display it."""
    interactive: Any = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    if shell is not None and shell.has_trait("kernel"):
        interactive.display.display(interactive.display.HTML(html(record, most)))
    else:
        echo(text(record, most))


def text(record: Record, most: int | None = MOST_ROWS) -> str:
    """The table as text. In a terminal it has colours and fits the width; elsewhere it is plain, with whole lines."""
    if sys.stdout is None or not sys.stdout.isatty():  # None if the program has no console
        return plain(record, most)
    from click import unstyle

    shown = fitted(record, most, shutil.get_terminal_size().columns)
    return unstyle(shown) if os.environ.get("NO_COLOR") or os.environ.get("TERM") in NO_CODES else shown


def plain(record: Record, most: int | None = MOST_ROWS) -> str:
    """The table as plain text, with columns separated by spaces."""
    head, tail, left = rows(record, most)
    above, below = _lines(head), _lines(tail)
    widths = [max(map(len, column)) for column in zip(titles(record), *above, *below, strict=True)]
    laid = [
        [(" " * GAP).join(map(str.ljust, line, widths)).rstrip() for line in part]
        for part in ([titles(record), *above], below)
    ]
    return "\n".join([*laid[0], *([more(left)] if left else []), *laid[1], *footer(record)])


def _lines(shown: Sequence[TableRow]) -> list[tuple[str, ...]]:
    return [line for row in shown for line in zip_longest(*(cell.split("\n") for cell in row.cells), fillvalue="")]


def html(record: Record, most: int | None = MOST_ROWS) -> Html:
    """The table as self-contained HTML, for a notebook."""
    head, tail, left = rows(record, most)
    between = [html_row(more(left))] if left else []
    body = [*map(_html_row, head), *between, *map(_html_row, tail)]
    return shown(html_table(titles(record), body), *(element("div", line, class_="note") for line in footer(record)))


def _html_row(row: TableRow) -> Html:
    *cells, source = row.brief
    line = element("div", element("span", row.place, class_="place"), f"  {row.statement}", class_="line")
    return html_row(*cells, line if source else "", class_="" if row.ok else "missing")
