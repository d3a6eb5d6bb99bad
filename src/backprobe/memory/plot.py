"""A report on memory as a figure: bars for lines, in the colours of modules."""

from __future__ import annotations

from typing import Any

import numpy

from backprobe.charts.plots import label, matplotlib
from backprobe.memory.text import heading, where

WIDTH, ROW, MOST = 8.0, 0.24, 40  # inches of the picture and of a row, and rows


def picture(report: Any) -> Any:
    """A figure: the bytes of each line, one behind the other by module."""
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
