"""The effects of a sweep as a figure: bars or heat maps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from backprobe.charts.plots import label, matplotlib

# in inches: the width of a picture, the height of a row, and the largest height of a picture
WIDTH, ROW, TALLEST = 7.0, 0.24, 10.0
COLOURS = "RdBu_r"  # blue below 0, red above 0


def bars(names: Sequence[str], effects: Sequence[float], predicted: Sequence[float], title: str) -> Any:
    """A bar for the effect of each value, from the top in program order, and a circle for its approximation."""
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
    """A heat map of each grid, with the same colours. Each combination of a name and indices along all axes except the
    last has a row.
    """
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
        panel.set_facecolor("0.85")  # the colour for indices that a value does not have
        panel.set_title(what, fontsize=10)
        panel.set_xlabel(f"index along axis {along[-1]}")
        panel.xaxis.get_major_locator().set_params(integer=True)
        label(panel.yaxis, rows)
    made.colorbar(image, ax=panels)
    made.suptitle(title, fontsize=10)
    return made


def _figure(width: float, rows: int) -> Any:
    # A new figure that is not registered with pyplot. Raises NotInstalled.
    figures, _ = matplotlib("sweep.plot()")
    return figures.Figure(figsize=(width, min(1.6 + ROW * rows, TALLEST)), layout="constrained")
