"""A sweep as the viewer shows it: rows of names, with a column for each index along the last axis."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.view.shown import Shown


def shown_of(
    of: str,
    target: str,
    output: float,
    names: Sequence[str],
    axes: Sequence[int],
    grids: Mapping[str, Any],
    notes: Sequence[str],
) -> Shown:
    """The data that ``bp.view`` shows of a sweep. Each index along the axes before the last has its own row.

    ``grids`` are arrays by names and indices: ``effect``; ``was``, which is 1 if there was a run; and
    ``approximation``, if it was requested.
    """
    *leading, width = grids["effect"].shape[1:] if axes and names else (1,)
    places = [*itertools.product(*map(range, leading))]
    rows = [":".join([name, ", ".join(map(str, place))]) if place else name for name in names for place in places]
    data = {
        "of": of,
        "target": target,
        "output": output,
        "rows": rows,
        "width": width,
        "axes": list(axes),
        "notes": list(notes),
    }
    return Shown("sweep", f"{of} of {target}", data, tuple(names), grids)
