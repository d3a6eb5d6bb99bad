"""A sweep as the viewer shows it: rows of names, with a column for each index along the last axis."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from backprobe.view.shown import Shown


def shown_of(sweep: Any, grids: Mapping[str, Any]) -> Shown:
    """The data that ``bp.view`` shows of a sweep. Each index along the axes before the last has its own row.

    ``grids`` are arrays by names and indices: ``effect``; ``was``, which is 1 if there was a run; and
    ``approximation``, if it was requested.
    """
    *leading, width = grids["effect"].shape[1:] if sweep.axes and sweep.names else (1,)
    places = [*itertools.product(*map(range, leading))]
    rows = [":".join([name, ", ".join(map(str, place))]) if place else name for name in sweep.names for place in places]
    data = {
        "of": sweep.of,
        "target": sweep.target,
        "output": sweep.output,
        "rows": rows,
        "width": width,
        "axes": list(sweep.axes),
        "notes": list(sweep.notes),
    }
    return Shown("sweep", f"{sweep.of} of {sweep.target}", data, tuple(sweep.names), grids)
