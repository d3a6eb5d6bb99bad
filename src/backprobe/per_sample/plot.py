"""The samples of a batch as a figure: the share of each sample in the gradient, and its norms by name."""

from __future__ import annotations

from typing import Any

import numpy

from backprobe.charts.plots import LEGIBLE, label, matplotlib
from backprobe.per_sample.text import heading

# in inches: width of the picture, height of a row, height of the shares, margin
WIDTH, ROW, SHARES, AROUND = 9.0, 0.18, 2.2, 1.2
TALLEST = 14.0


def picture(samples: Any) -> Any:
    """A figure of shares above a heat map of norms (names × samples), with logarithmic colours."""
    figures, colors = matplotlib("samples.plot()")
    names = samples.names
    height = min(SHARES + ROW * max(min(len(names), LEGIBLE), 4) + AROUND, TALLEST)
    figure = figures.Figure(figsize=(WIDTH, height), layout="constrained")
    heights = [SHARES, max(height - SHARES - AROUND, ROW * 4)]
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    _shares(above, samples)
    grid = numpy.array([samples.measured[name][0] for name in names])
    known = grid[numpy.isfinite(grid) & (grid > 0)]
    scale = colors.LogNorm(known.min(), max(known.max(), known.min() * 1.01), clip=True) if known.size else None
    edges = numpy.arange(len(samples) + 1) - 0.5
    below.set_facecolor("0.85")  # the colour of norms that are NaN or Inf
    drawn = below.pcolormesh(
        edges,
        numpy.arange(len(names) + 1) - 0.5,
        numpy.ma.masked_invalid(grid),
        norm=scale,
        cmap="viridis",
        rasterized=True,
    )
    label(below.yaxis, names)
    below.invert_yaxis()
    below.set_xlabel("sample")
    below.xaxis.get_major_locator().set_params(integer=True)
    figure.colorbar(drawn, ax=below, label="norm")
    figure.suptitle(heading(samples), fontsize=10)
    return figure


def _shares(axes: Any, samples: Any) -> None:
    # Draw a bar for the share of each sample, and a cross for a sample without a share.
    every, shares = numpy.arange(len(samples)), samples.shares
    axes.bar(every, numpy.nan_to_num(shares), width=0.9, color=numpy.where(shares < 0, "tab:red", "tab:blue"))
    lost = numpy.array(samples.nonfinite, int)
    if lost.size:
        axes.plot(lost, numpy.zeros(lost.size), "x", color="black", label="NaN or Inf")
        axes.legend()
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_ylabel("share")
