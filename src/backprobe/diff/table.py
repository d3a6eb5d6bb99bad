"""Pairs of a comparison as a table, with the errors of values and gradients in units of their floors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backprobe.diff.pairs import DTYPE, SHAPE, STATUS, JudgedNumbers, Row
from backprobe.markup import Html, table
from backprobe.markup import row as html_row
from backprobe.record.entries import GradStatus
from backprobe.show.columns import GAP, elided, in_columns
from backprobe.show.text import printable

TITLES = ("name", "value", "× floor", "gradient", "× floor")
MARK = "!"
LEAST = 12  # the smallest width of a name, in characters


def cells(row: Row) -> tuple[str, str, str, str, str]:
    """Return the cells of one pair: its name, and relative error and multiple of the floor for value and gradient."""
    name = " = ".join(dict.fromkeys(row.names))
    return (printable(name), *_cells(row.value, row), *_cells(row.gradient, row))


def _cells(judged: JudgedNumbers, row: Row) -> tuple[str, str]:
    if judged.kind in (SHAPE, DTYPE, STATUS):
        return judged.kind, MARK
    if judged.measure is None:
        is_missing = judged.why == "no gradient" and row.a.status in (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT)
        return ("" if is_missing or not judged.why else "–", "") if not judged.kind else ("differs", MARK)
    if not judged.measure.differing:
        return "same tensor" if judged.is_same else "equal", ""
    error = "Inf" if math.isinf(judged.measure.relative) else f"{judged.measure.relative:.1e}"
    return error, (f"{judged.excess:.2g}" if math.isfinite(judged.excess) else "Inf") + f" {MARK}" * bool(judged.kind)


def text_table(rows: Sequence[Row | int], width: int) -> list[str]:
    """Return the table as lines of at most ``width`` columns.

    A number among the rows is the number of rows omitted at this place.
    """
    if not rows:
        return []
    shown: list[Any] = [cells(row) if isinstance(row, Row) else row for row in rows]
    full = [one for one in shown if not isinstance(one, int)]
    others = [max(len(line[at]) for line in (TITLES, *full)) for at in range(1, 5)]
    room = max(width - sum(others) - GAP * len(others), LEAST)
    names = elided([one[0] for one in full], room)
    first = max(map(len, (TITLES[0], *names)))
    written = iter(names)
    lines = [in_columns(TITLES, first, others).rstrip()]
    for one in shown:
        cut = isinstance(one, int)
        lines.append(f"… {one:,} more" if cut else in_columns((next(written), *one[1:]), first, others).rstrip())
    return lines


def html_table(rows: Sequence[Row | int]) -> Html:
    """The table for a notebook."""
    return table(
        TITLES,
        [
            html_row(f"… {row:,} more")
            if isinstance(row, int)
            else html_row(*cells(row), class_="missing" if row.value.kind or row.gradient.kind else "")
            for row in rows
        ],
    )
