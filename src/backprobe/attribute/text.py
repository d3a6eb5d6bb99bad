"""The text that an attribution prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backprobe.findings.phrasing import listed
from backprobe.show.text import printable

OFF = 0.2  # relative error above which the text recommends gradients at more points


def heading(result: Any) -> str:
    """Return a line with the outputs of both runs."""
    return (
        f"{printable(result.of)} of {result.target}: {result.clean:.6g} in the clean run, {result.corrupt:.6g} in the "
        f"corrupt run, a change of {result.change:.6g}"
    )


def rows(result: Any, most: int) -> list[Sequence[str]]:
    """Return table rows: titles, the largest values, then the largest edges."""
    names = [(printable(name), *_cells(result, number)) for name, number in result.top(most).items()]
    edges = [
        (f"{printable(source)} → {printable(target)}", *_cells(result, number))
        for (source, target), number in result.top_edges(most).items()
    ]
    titles = [("edge", "attribution", "share")] if edges else []
    return [("name", "attribution", "share"), *names, *titles, *edges]


def footer(result: Any, most: int) -> list[str]:
    """Return lines on how many values are not shown, and on how the sum compares with the change of the output."""
    left = [(len(result.numbers) - most, "result.numbers"), (len(result.edges) - most, "result.edges")]
    more = [f"{count:,} more in {where}" for count, where in left if count > 0]
    return [*([", ".join(more)] if more else []), *_sums(result), *(f"note: {note}" for note in result.notes)]


def _sums(result: Any) -> list[str]:
    if not result.first:
        return []
    one = len(result.first) == 1
    said = (
        f"the first value, {result.first[0]}, has {result.sum:.6g}"
        if one
        else f"the first values, {listed([*result.first], 4)}, sum to {result.sum:.6g}"
    )
    lines = [f"{said}, and the output changes by {result.change:.6g}"]
    if abs(result.error) > OFF:
        more = "steps=10 takes the mean gradient" if result.steps is None else "more steps, or along= of other values"
        lines.append(f"the rest comes in elsewhere, or the output is not linear on the way: {more}")
    return lines


def _cells(result: Any, number: float) -> tuple[str, str]:
    share = number / result.change if result.change else math.nan
    return f"{number:.4g}", "–" if math.isnan(share) else f"{share:.3g}"
