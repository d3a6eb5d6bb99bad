"""The effects of a sweep as a figure: bars, or heat maps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from backprobe.charts.plots import label, matplotlib

WIDTH, ROW, TALLEST = 7.0, 0.24, 10.0  # inches of a picture, of a row, and of a picture of many rows
COLOURS = "RdBu_r"  # below 0 blue, above 0 red


def bars(names: Sequence[str], effects: Sequence[float], predicted: Sequence[float], title: str) -> Any:
    """A bar for each value, in the order of the program from above, and a circle where its effect was predicted."""
    made = _figure(WIDTH, len(names))
    axes = made.add_subplot()
    rows = range(len(names))
    axes.barh(rows, effects, color="tab:blue", label="effect")
    if not numpy.isnan(predicted).all():
        axes.plot(predicted, rows, "o", color="black", fillstyle="none", label="gradient × change")
        axes.legend()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.margins(y=0.01)
    axes.locator_params(axis="x", nbins=5)
    axes.invert_yaxis()
    label(axes.yaxis, names)
    axes.set_title(title, fontsize=10)
    return made


def maps(grids: Mapping[str, Any], names: Sequence[str], along: Sequence[int], title: str) -> Any:
    """A heat map of each grid, in the same colours: rows are names, and indices along all axes but the last."""
    *leading, columns = next(iter(grids.values())).shape[1:]
    places = list(itertools.product(*map(range, leading)))
    rows = [", ".join([name, *map(str, place)]) for name in names for place in places]
    made = _figure(WIDTH * (1 + 0.6 * (len(grids) - 1)), len(rows))
    largest = float(numpy.nanmax(numpy.abs([*grids.values()]), initial=0.0)) or 1.0
    panels = made.subplots(1, len(grids), sharey=True, squeeze=False)[0]
    for panel, (what, grid) in zip(panels, grids.items(), strict=True):
        image = panel.imshow(
            grid.reshape(len(rows), columns),
            cmap=COLOURS,
            vmin=-largest,
            vmax=largest,
            aspect="auto",
            interpolation="nearest",
        )
        panel.set_facecolor("0.85")  # where a value has no such index
        panel.set_title(what, fontsize=10)
        panel.set_xlabel(f"index along axis {along[-1]}")
        panel.xaxis.get_major_locator().set_params(integer=True)
        label(panel.yaxis, rows)
    made.colorbar(image, ax=panels)
    made.suptitle(title, fontsize=10)
    return made


def _figure(width: float, rows: int) -> Any:
    # An empty figure to which nothing else refers. Raises NotInstalled.
    figures, _ = matplotlib("sweep.plot()")
    return figures.Figure(figsize=(width, min(1.6 + ROW * rows, TALLEST)), layout="constrained")
