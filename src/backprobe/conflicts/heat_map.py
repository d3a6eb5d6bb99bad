"""Conflicts as a heat map by matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from backprobe.errors import installed

MOST = 60  # number of rows, one for each entry
LONGEST = 40  # characters of a name
ROW, COLUMN, AROUND = 0.24, 1.1, (3.6, 1.3)  # inches: height of a row, width of a column, and the margins
PALE = 0.6  # the text is white if the absolute cosine is larger than this, and the cell therefore dark


def heat_map(names: Sequence[str], pairs: Sequence[tuple[str, str]], cosines: Any, ratios: Any) -> Any:
    """Return a heat map of entries × pairs. Both arrays have a row for each name and a column for each pair.

    If there are too many entries, only those with the lowest cosines are shown.
    """
    figures = installed("matplotlib.figure", asked="conflicts.plot()")
    rows = _lowest(cosines)
    size = COLUMN * len(pairs) + AROUND[0], ROW * max(len(rows), 1) + AROUND[1]
    figure = figures.Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set_facecolor("0.85")  # the colour of cells without a gradient
    shown = numpy.ma.masked_invalid(cosines[rows]).reshape(len(rows), len(pairs))
    drawn = axes.imshow(shown, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    for at, column in numpy.ndindex(shown.shape):
        cosine, ratio = cosines[rows[at], column], ratios[rows[at], column]
        ink = "white" if abs(cosine) > PALE else "black"
        axes.text(column, at, _cell(cosine, ratio), ha="center", va="center", fontsize=7, color=ink)
    axes.set_xticks(range(len(pairs)), [" · ".join(map(_short, pair)) for pair in pairs], fontsize=8)
    axes.set_yticks(range(len(rows)), [_short(names[row]) for row in rows], fontsize=7)
    axes.tick_params(length=0)
    figure.suptitle(_title(len(names) - len(rows)), x=0.01, ha="left", fontsize=9)
    figure.colorbar(drawn, ax=axes)
    return figure


def _title(left: int) -> str:
    said = "cosine of both gradients (× ratio of their norms)"
    return said + f"\n{left:,} entries with higher cosines are left out" if left else said


def _lowest(cosines: Any) -> list[int]:
    # Choose the rows with the lowest cosines, and keep their order.
    lowest = numpy.where(numpy.isnan(cosines), math.inf, cosines).min(axis=1, initial=math.inf)
    return sorted(numpy.argsort(lowest, kind="stable")[:MOST].tolist())


def _cell(cosine: float, ratio: float) -> str:
    return "" if math.isnan(cosine) else f"{cosine:z.2f} (×{ratio:.2g})"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else "…" + name[-LONGEST + 1 :]
