"""A memory report as a bar chart: one bar for each line, coloured by module."""

from __future__ import annotations

from typing import Any

import numpy

from backprobe.charts.plots import label, matplotlib
from backprobe.memory.text import heading, where

WIDTH, ROW, MOST = 8.0, 0.24, 40  # inches: the width of the picture, the height of a row; and the most rows


def picture(report: Any) -> Any:
    """A figure with one bar for each line. The bytes of the modules are stacked in the bar."""
    figures, _ = matplotlib("report.plot()")
    lines = [*report.by("line")][:MOST]
    figure = figures.Figure(figsize=(WIDTH, 1.6 + ROW * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    begun = numpy.zeros(len(lines))
    for module in report.by("module"):
        own = (
            numpy.array(
                [
                    sum(one.nbytes for one in report.saved if where(one.source) == line and one.module == module)
                    for line in lines
                ]
            )
            / 1e6
        )
        axes.barh(range(len(lines)), own, left=begun, label=module or "outside of modules")
        begun += own
    axes.invert_yaxis()
    label(axes.yaxis, lines)
    axes.set_xlabel("MB kept for backward")
    if begun.any():
        axes.legend(fontsize=7)
    axes.set_title(heading(report), fontsize=10)
    return figure
