"""An attribution as a figure: bars for the largest values and edges, or heat maps over the indices of each value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

from backprobe.attribute.text import heading
from backprobe.charts.plots import label, matplotlib
from backprobe.sweep.plot import maps

# inches: width of the figure, height of a row, of a panel's margins, and of the tallest figure
WIDTH, ROW, AROUND, TALLEST = 7.0, 0.24, 1.6, 12.0


def picture(result: Any, names: Mapping[str, float], edges: Mapping[tuple[str, str], float]) -> Any:
    """The figure. Raises NotInstalled."""
    if result.parts:
        return maps({"attribution": _grid(result.parts, names)}, [*names], result.axes, heading(result))
    figures, _ = matplotlib("result.plot()")
    panels = [("values", dict(names))]
    if edges:
        panels.append(("edges", {f"{source} → {target}": number for (source, target), number in edges.items()}))
    rows = sum(max(len(numbers), 2) for _, numbers in panels)
    figure = figures.Figure(figsize=(WIDTH, min(AROUND * len(panels) + ROW * rows, TALLEST)), layout="constrained")
    heights = [max(len(numbers), 2) for _, numbers in panels]
    drawn = figure.subplots(len(panels), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for axes, (title, numbers) in zip(drawn, panels, strict=True):
        values = numpy.array([*numbers.values()])
        axes.barh(range(len(numbers)), values, color=numpy.where(values < 0, "tab:red", "tab:blue"))
        axes.axvline(0, color="black", linewidth=0.8)
        axes.margins(y=0.01)
        axes.invert_yaxis()
        axes.set_title(title, fontsize=10)
        label(axes.yaxis, [*numbers])
    figure.suptitle(heading(result), fontsize=10)
    return figure


def _grid(parts: Mapping[str, Any], names: Mapping[str, float]) -> Any:
    # The array has a row for each value. A value with fewer indices than another is padded with NaN.
    own = [parts[name] for name in names]
    grid = numpy.full((len(own), *(max(sizes) for sizes in zip(*(one.shape for one in own), strict=True))), numpy.nan)
    for row, one in zip(grid, own, strict=True):
        row[tuple(map(slice, one.shape))] = one
    return grid
