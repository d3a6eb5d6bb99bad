"""Pairs of a comparison as a table, with the errors of values and gradients in units of their floors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from backprobe.diff.pairs import DTYPE, SHAPE, STATUS, JudgedNumbers, Row
from backprobe.markup import Html, table
from backprobe.markup import row as html_row
from backprobe.record.entries import GradStatus
from backprobe.show import number_table
from backprobe.show.text import printable

TITLES = ("name", "value", "× floor", "gradient", "× floor")
MARK = "!"


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
    """Return the lines of the table, fitted to the width.

    A number among the rows is the number of rows omitted at this place.
    """
    shown = [cells(row) if isinstance(row, Row) else row for row in rows]
    return number_table.text_table(TITLES, shown, width) if rows else []


def html_table(rows: Sequence[Row | int]) -> Html:
    """The table for a notebook."""
    return table(
        TITLES,
        [
            html_row(number_table.more(row))
            if isinstance(row, int)
            else html_row(*cells(row), class_="missing" if row.value.kind or row.gradient.kind else "")
            for row in rows
        ],
    )
