"""A recording as a table: in a terminal, as plain text, in a notebook."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from backprobe.backends.discover import load_arrays
from backprobe.backends.tensors import Arrays
from backprobe.errors import Overwritten
from backprobe.findings.phrasing import listed, plural
from backprobe.markup import Html, element, shown
from backprobe.markup import row as html_row
from backprobe.markup import table as html_table
from backprobe.record.brief import place
from backprobe.record.entries import Entry, GradStatus, Record, plain_text
from backprobe.record.reasons import NOT_FETCHED
from backprobe.show.columns import ALIAS, GAP, Columns, Forms, Row, elided
from backprobe.show.printing import echo
from backprobe.show.text import forms, keys_shown, outputs, path_sums, printable

MOST_ROWS = 60  # that are printed unasked


def rows(record: Record, most: int | None) -> tuple[list[Row], list[Row], int]:
    """The rows at the head and the tail of a table of at most so many, and how many entries are between them.

    There is one for each tensor; other values share one line below the table.
    """
    arrays = load_arrays(record.backend)
    entries = [entry for entry in record.entries if entry.status is not GradStatus.NOT_TENSOR]
    left = 0 if most is None else max(len(entries) - most, 0)
    last = 0 if not left or most is None else most // 2
    first = len(entries) - left - last
    keys = keys_shown(record)
    head = [_row(entry, arrays, keys) for entry in entries[:first]]
    return head, [_row(entry, arrays, keys) for entry in entries[len(entries) - last :]], left


def _row(entry: Entry, arrays: Arrays, keys: Sequence[str]) -> Row:
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
    return Row(own, value, gradients, where, statement, entry.status is GradStatus.OK)


def _gradient(entry: Entry, arrays: Arrays, reason: str) -> Forms:
    # The gradient of one output, or its status, with the reason in the longest form where there is room for it.
    if entry.status is GradStatus.OK:
        return forms(entry.grad, arrays)
    status = str(entry.status)
    return printable(f"{status}: {reason}" if reason else status), status, status


def titles(record: Record) -> tuple[str, ...]:
    """Those of the columns: several outputs have one each; that of lines of code is empty where no entry has one."""
    gradients = map(printable, keys_shown(record)) if record.by_output else ("gradient",)
    return "name", "value", *gradients, "source" * any(entry.source is not None for entry in record.entries)


def footer(record: Record) -> list[str]:
    """The lines below the table: values that are not tensors, what was differentiated, and notes."""
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
class Fitted:
    """The table for rich's own printing, fitted to the width of its console."""

    record: Record
    most: int | None = MOST_ROWS

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        head, tail, left = rows(self.record, self.most)
        columns = Columns.fitting([*head, *tail], options.max_width, titles(self.record))
        names = iter(elided([name for row in (*head, *tail) for name in row.names], columns.name))
        yield Text((" " * GAP).join(columns.titles).rstrip(), "bold", no_wrap=True)
        for row in (*head, None, *tail):
            if row is None:
                if left:
                    yield Text(_more(left), "dim")
                continue
            cells = columns.cells(row, next(names))
            styles = ("cyan", "", *("" if row.ok else "yellow" for _ in row.gradients), "dim")
            made = Text(" " * GAP, no_wrap=True, overflow="ellipsis").join(map(Text, cells, styles))
            made.rstrip()
            yield made
            for _ in row.names[1:]:
                yield Text(next(names), "cyan", no_wrap=True)
        for line in footer(self.record):
            yield Text(line, "dim")


def show(record: Record, most: int | None) -> None:
    """Print the table; in a notebook, display it."""
    interactive: Any = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    if shell is not None and shell.has_trait("kernel"):
        interactive.display.display(interactive.display.HTML(html(record, most)))
    else:
        echo(text(record, most))


def text(record: Record, most: int | None = MOST_ROWS) -> str:
    """The table as text: coloured and fitted to the width of a terminal, plain and not cut elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():  # None where a program has no console
        return plain(record, most)
    from rich.console import Console  # here, because importing rich takes longer than importing backprobe

    console = Console(file=io.StringIO(), force_terminal=True, highlight=False)
    with console.capture() as captured:
        console.print(Fitted(record, most))
    return captured.get().rstrip("\n")


def plain(record: Record, most: int | None = MOST_ROWS) -> str:
    """The table in columns of spaces."""
    head, tail, left = rows(record, most)
    above, below = _lines(head), _lines(tail)
    widths = [max(map(len, column)) for column in zip(titles(record), *above, *below, strict=True)]
    laid = [[(" " * GAP).join(map(str.ljust, line, widths)).rstrip() for line in part]
            for part in ([titles(record), *above], below)]  # fmt: skip
    return "\n".join([*laid[0], *([_more(left)] if left else []), *laid[1], *footer(record)])


def _lines(shown: Sequence[Row]) -> list[tuple[str, ...]]:
    return [line for row in shown for line in zip_longest(*(cell.split("\n") for cell in row.cells), fillvalue="")]


def _more(left: int) -> str:
    return f"… {left:,} more"


def html(record: Record, most: int | None = MOST_ROWS) -> Html:
    """The table for a notebook, self-contained."""
    head, tail, left = rows(record, most)
    more = [html_row(_more(left))] if left else []
    body = [*map(_html_row, head), *more, *map(_html_row, tail)]
    return shown(html_table(titles(record), body), *(element("div", line, class_="note") for line in footer(record)))


def _html_row(row: Row) -> Html:
    *cells, source = row.brief
    line = element("div", element("span", row.place, class_="place"), f"  {row.statement}", class_="line")
    return html_row(*cells, line if source else "", class_="" if row.ok else "missing")
