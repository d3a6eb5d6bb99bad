"""Pictures of a run by matplotlib: a field of all names over the steps, and gradients and values across the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from backprobe.charts.spark import Matrix
from backprobe.errors import installed
from backprobe.storage.runs.merged import RunReader

LEGIBLE = 60  # names that fit along an axis; of more names, only some are labelled
LONGEST = 40  # characters of a label
ROW, SMALLEST, TALLEST = 0.18, 2.5, 14.0  # inches: height of a row, and the smallest and largest height of a figure
COUNTED = ("count", "finite", "nan", "posinf", "neginf", "zeros")
SIGNED = ("sum", "mean", "min", "max")


def heat_map(reader: RunReader, names: Sequence[str], field: str) -> Any:
    """A heat map of a field, names × steps. The scale is logarithmic, for counts linear; gaps are grey or white."""
    figures, colors = matplotlib(f"run.plot({field!r})")
    steps, grid = reader.field(names, field)
    there = ~numpy.isnan(grid).all(axis=0)
    steps, grid = steps[there], grid[:, there]
    height = float(numpy.clip(ROW * min(len(names), LEGIBLE) + 1.2, SMALLEST, TALLEST))
    figure = figures.Figure(figsize=(9, height), layout="constrained")
    axes = figure.add_subplot()
    is_signed = field.rpartition(".")[2] in SIGNED
    axes.set_facecolor("white" if is_signed else "0.85")  # the colour of gaps
    edges = numpy.append(steps, steps[-1] + 1 if len(steps) else 1) - 0.5
    drawn = axes.pcolormesh(
        edges,
        numpy.arange(len(names) + 1) - 0.5,
        numpy.ma.masked_invalid(grid),
        norm=_norm(colors, grid, field),
        cmap="coolwarm" if is_signed else "viridis",
        rasterized=True,
    )
    label(axes.yaxis, names)
    axes.invert_yaxis()
    axes.set(xlabel="step", title=field)
    figure.colorbar(drawn, ax=axes)
    return figure


def _norm(colors: Any, grid: Matrix, field: str) -> Any:
    # The colour scale: symmetric logarithmic for signed numbers; None, for a linear one, for counts or if no number is
    # positive; logarithmic for the rest.
    known = grid[numpy.isfinite(grid)]
    statistic = field.rpartition(".")[2]
    if statistic in SIGNED:
        largest = float(abs(known).max(initial=0)) or 1.0
        return colors.SymLogNorm(largest * 1e-3, vmin=-largest, vmax=largest)
    positive = known[known > 0]
    if statistic in COUNTED or not len(positive):
        return None
    low, high = float(positive.min()), float(positive.max())
    return colors.LogNorm(low, high if high > low else 2 * low, clip=True)  # zeros get the lowest colour


def flow(names: Sequence[str], step: int, rows: Mapping[str, Mapping[str, float]]) -> Any:
    """Return a figure with the rms of values and of gradients across the layers, at one step."""
    figures, _ = matplotlib(f"run.plot_flow(step={step})")
    figure = figures.Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for field, marker in (("value.rms", "o"), ("grad.rms", "s")):
        found = numpy.array([rows[name].get(field, numpy.nan) if name in rows else numpy.nan for name in names])
        if not numpy.isnan(found).all():
            size = 4 if len(names) <= LEGIBLE else 2
            axes.plot(range(len(names)), found, marker=marker, markersize=size, linewidth=1, label=field)
    axes.set_yscale("log")
    label(axes.xaxis, names)
    axes.tick_params(axis="x", labelrotation=90)
    axes.grid(axis="y", alpha=0.3)
    axes.set(title=f"step {step}, from the first module to the last")
    axes.legend()
    return figure


def label(axis: Any, names: Sequence[str]) -> None:
    """Label an axis with names. If there are too many, label only some, far enough apart to be read."""
    every = -(-len(names) // LEGIBLE) or 1
    shown = range(0, len(names), every)
    axis.set_ticks(list(shown), [_short(names[at]) for at in shown], fontsize=7)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else "…" + name[-LONGEST + 1 :]


def matplotlib(asked: str) -> tuple[Any, Any]:
    """Return matplotlib's modules for figures (without windows) and colours. Raises NotInstalled."""
    installed("matplotlib", asked=asked)
    figures, colors = (installed(f"matplotlib.{part}", asked=asked) for part in ("figure", "colors"))
    return figures, colors
