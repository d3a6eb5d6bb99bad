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


def shortened(rows: Sequence[Cells]) -> list[Cells | int]:
    """The rows of a table; of a long one, the first and the last rows with the number of the others between them."""
    left = max(len(rows) - MOST, 0)
    head = len(rows) - left - (MOST // 2 if left else 0)
    return [*rows[:head], *([left] if left else []), *rows[head + left :]]


def text_table(titles: Cells, rows: Sequence[Cells | int], width: int) -> list[str]:
    """The lines of the table. A number among the rows is the number of rows left out at this place.

    The names in the first column are shortened to fit the width, but not to fewer than ``LEAST`` characters.
    """
    every = [titles, *(cells for cells in rows if not isinstance(cells, int))]
    others = [max(map(len, column)) for column in zip(*(cells[1:] for cells in every), strict=True)]
    names = elided([cells[0] for cells in every], max(width - sum(others) - GAP * len(others), LEAST))
    first, waiting = max(map(len, names)), iter(names)
    return [
        more(one) if isinstance(one, int) else in_columns((next(waiting), *one[1:]), first, others).rstrip()
        for one in (titles, *rows)
    ]


def more(left: int) -> str:
    """The text in place of rows that are left out."""
    return f"… {left:,} more"


class NumberTable(Printed):
    """A result that prints as a heading, a table of numbers, and lines below the table."""

    def _parts(self) -> tuple[str, Cells, Sequence[Cells], Sequence[str]]:
        # The heading, the titles and the rows of the table, and the lines below. Without titles there is no table.
        raise NotImplementedError

    def __str__(self) -> str:
        heading, titles, rows, below = self._parts()
        return "\n".join([heading, *(text_table(titles, shortened(rows), columns()) if titles else []), *below])

    def _repr_html_(self) -> Html:
        heading, titles, rows, below = self._parts()
        lines = [row(more(one)) if isinstance(one, int) else row(*one) for one in shortened(rows)]
        made = [table(titles, lines)] if titles else []
        notes = [element("div", line, class_="note") for line in below]
        return shown(element("div", heading, class_="heading"), *made, *notes)


def columns() -> int:
    """The width of the terminal, or a default width."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else WIDTH
