"""A picture of one tensor by matplotlib: a line, a heat map or a histogram."""

from __future__ import annotations

import math
from typing import Any

import numpy

from backprobe.charts.plots import matplotlib
from backprobe.charts.spark import Matrix

MOST = 1 << 16  # larger tensors get a histogram instead of a line or heat map
FEW = 64  # the largest number of elements for which a line has markers
BINS = 60
SMALLEST, LARGEST = 1e-100, 1e100  # range of magnitudes that matplotlib handles without overflow
ILL = {"NaN": "tab:purple", "+Inf": "tab:orange", "−Inf": "tab:green"}
HEIGHTS = {"NaN": 0.0, "+Inf": 1.0, "−Inf": 0.0}  # height of each kind of mark, as a fraction of the axes


def plot(numbers: Matrix, heading: str, asked: str) -> Any:
    """Return a figure of a tensor's numbers: a line for a vector, otherwise a heat map, or a histogram of many."""
    figures, colors = matplotlib(asked)
    figure = figures.Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    shape = "×".join(map(str, numbers.shape))
    if numbers.dtype.kind == "c":
        with numpy.errstate(all="ignore"):
            numbers, heading = numpy.abs(numbers), f"magnitude of {heading}"
    finite = numpy.isfinite(numbers)
    largest = float(numpy.abs(numbers[finite]).max(initial=0.0))
    is_usual = not largest or SMALLEST < largest < LARGEST
    unit = 1.0 if is_usual else 10.0 ** max(math.floor(math.log10(largest)), -300)
    with numpy.errstate(all="ignore"):
        numbers = numbers / unit
    where = {"NaN": numpy.isnan(numbers), "+Inf": numbers == math.inf, "−Inf": numbers == -math.inf}
    is_line = not numbers.size or max(numbers.shape, default=1) == numbers.size <= MOST
    if is_line:
        shown = numpy.where(finite, numbers, math.nan).reshape(-1)
        axes.plot(numpy.arange(shown.size), shown, marker="o" if shown.size <= FEW else "", linewidth=1)
        axes.set_xlabel("index")
    elif numbers.size <= MOST:
        _heat_map(figure, axes, colors, numbers, where)
    else:
        axes.hist(numbers[finite], BINS, log=bool(finite.any()))
        axes.set(xlabel="number", ylabel="how many")
    for name, found in where.items():
        if count := int(found.sum()):
            at = numpy.flatnonzero(found) if is_line else numpy.empty(0)
            axes.plot(
                at,
                numpy.full(at.size, HEIGHTS[name]),
                "x" if is_line else "s",
                color=ILL[name],
                clip_on=not is_line,
                label=f"{count:,} {name}",
                transform=axes.get_xaxis_transform(),
            )
    if not finite.all():
        figure.legend(loc="outside lower center", ncols=len(ILL))
    about = [shape, f"in units of {unit:.3g}" * (unit != 1.0), "" if numbers.size else "empty"]
    axes.set_title("\n".join([heading, ", ".join(filter(None, about))]).strip(), fontsize=10, parse_math=False)
    return figure


def _heat_map(figure: Any, axes: Any, colors: Any, numbers: Matrix, where: Any) -> None:
    # Reshape to a matrix: the first axes become rows and the rest columns, split where the matrix is nearest to a
    # square.
    shape = numbers.shape
    ways = {at: math.log(math.prod(shape[:at]) / math.prod(shape[at:])) for at in range(1, len(shape))}
    first = min(ways, key=lambda at: (abs(ways[at]), -at))
    grid = numbers.reshape(math.prod(shape[:first]), -1)
    finite = grid[numpy.isfinite(grid)]
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
    is_signed = low < 0
    most = max(-low, high)
    norm = colors.Normalize(-most if is_signed else 0.0, most or 1.0)
    drawn = axes.imshow(
        grid,
        cmap="RdBu_r" if is_signed else "viridis",
        norm=norm,
        aspect="auto",
        interpolation="nearest",
        interpolation_stage="rgba",
    )
    ill = numpy.zeros((*grid.shape, 4))
    for name, found in where.items():
        ill[found.reshape(grid.shape)] = colors.to_rgba(ILL[name])
    if ill.any():
        axes.imshow(ill, aspect="auto", interpolation="nearest")
    for axis, own in ((axes.yaxis, range(first)), (axes.xaxis, range(first, len(shape)))):
        axis.get_major_locator().set_params(integer=True)
        axis.set_label_text(f"index along {'axis' if len(own) == 1 else 'axes'} {', '.join(map(str, own))}")
    figure.colorbar(drawn, ax=axes)
