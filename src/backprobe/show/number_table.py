"""A table of names and numbers, for terminals, plain text and notebooks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from backprobe.markup import Html, Printed, element, row, shown, table
from backprobe.show.columns import GAP, elided, in_columns

MOST = 60  # the most rows of a table
WIDTH = 100  # the width of a table that is not printed in a terminal
LEAST = 12  # the fewest characters for a name
Cells = Sequence[str]


def shortened(rows: Sequence[Cells]) -> tuple[Sequence[Cells], int, Sequence[Cells]]:
    """The first rows of a long table, the number of rows left out, and the last rows."""
    left = max(len(rows) - MOST, 0)
    head = len(rows) - left - (MOST // 2 if left else 0)
    return rows[:head], left, rows[head + left :]


def text_table(titles: Cells, rows: Sequence[Cells], width: int) -> list[str]:
    """The lines of the table. The names in the first column are shortened to this width, but never below ``LEAST``."""
    head, left, tail = shortened(rows)
    every = [titles, *head, *tail]
    others = [max(map(len, column)) for column in zip(*(cells[1:] for cells in every), strict=True)]
    room = max(width - sum(others) - GAP * len(others), LEAST)
    names = elided([cells[0] for cells in every], room)
    first = max(map(len, names))
    lines = [in_columns((name, *cells[1:]), first, others) for name, cells in zip(names, every, strict=True)]
    return [*lines[: len(head) + 1], *([more(left)] if left else []), *lines[len(head) + 1 :]]


def more(left: int) -> str:
    """The text in place of rows that are left out."""
    return f"… {left:,} more"


def html_table(titles: Cells, rows: Sequence[Cells]) -> Html:
    """The table as HTML, for a notebook."""
    head, left, tail = shortened(rows)
    return table(
        titles,
        [*(row(*cells) for cells in head), *([row(more(left))] if left else []), *(row(*cells) for cells in tail)],
    )


class NumberTable(Printed):
    """A result that prints as a heading, a table of numbers, and lines below the table."""

    def _parts(self) -> tuple[str, Cells, Sequence[Cells], Sequence[str]]:
        # The heading, the titles and the rows of the table, and the lines below. Without titles there is no table.
        raise NotImplementedError

    def __str__(self) -> str:
        heading, titles, rows, below = self._parts()
        return "\n".join([heading, *(text_table(titles, rows, columns()) if titles else []), *below])

    def _repr_html_(self) -> Html:
        heading, titles, rows, below = self._parts()
        made = [html_table(titles, rows)] if titles else []
        notes = [element("div", line, class_="note") for line in below]
        return shown(element("div", heading, class_="heading"), *made, *notes)


def columns() -> int:
    """The width of the terminal, or a default width."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else WIDTH
