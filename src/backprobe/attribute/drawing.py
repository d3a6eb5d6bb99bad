"""The circuit of an attribution's largest edges, drawn by ``draw``: values as nodes, attributions on the edges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backprobe.attribute import text
from backprobe.errors import BadOption
from backprobe.record.entries import Record
from backprobe.record.inputs import Edge
from backprobe.show.drawable import Drawable, Shade, decades

LEGEND = ("fill and line width: powers of 10 of the attribution, the largest strongest",)


def drawable(result: Any, edges: Mapping[tuple[str, str], float]) -> Drawable:
    """Return the drawing of the given edges. Raises BadOption if there are none."""
    if not edges:
        raise BadOption(
            "there are no edges to draw",
            asked="result.draw()",
            found=repr(result),
            why="either edges=False was asked for, or no selected value flows into another or the output",
            next="bp.attribute(..., edges=True), with more of the values selected",
        )
    record = _of_edges(result.record, edges)
    shades = {
        at: _shade(result.numbers[entry.name], result)
        for at, entry in enumerate(record.entries)
        if entry.name in result.numbers
    }
    changes = Shade((f"changes by {result.change:.3g}",), ("", f"changes by {result.change:.3g}"))
    shades |= {at: changes for at in record.outputs if at not in shades}
    heading = f"{text.heading(result)}; the {len(edges)} largest of {len(result.edges)} edges"
    places = {entry.name: at for at, entry in enumerate(record.entries)}
    numbers = {(places[source], places[target]): number for (source, target), number in edges.items()}
    return Drawable(
        record,
        shades,
        heading,
        LEGEND,
        "result",
        numbers,
        weighs="attribution",
        what="attribution",
        alarm="not finite",
    )


def _of_edges(record: Record, edges: Mapping[tuple[str, str], float]) -> Record:
    # Return the record with only the values at the ends of ``edges``.
    ends = {name for way in edges for name in way}
    old = [at for at, entry in enumerate(record.entries) if entry.name in ends]
    new = {at: position for position, at in enumerate(old)}
    places = {record.entries[at].name: position for at, position in new.items()}
    into: dict[str, list[Edge]] = {}
    for source, target in edges:
        into.setdefault(target, []).append(Edge(places[source], name=source))
    entries = [
        replace(record.entries[at], inputs=tuple(into.get(record.entries[at].name, ())), reads=(), indirect=())
        for at in old
    ]
    names = {full: new[at] for full, at in record.names.items() if at in new}
    outputs = tuple([new[at] for at in record.outputs if at in new])
    return replace(
        record,
        entries=tuple(entries),
        names=names,
        printed={full: record.printed[full] for full in names},
        backward=(),
        outputs=outputs,
        notes=(),
        used_at=(),
        none_given=(),
        none_reads=(),
        updates=(),
        training=None,
    )


def _shade(number: float, result: Any) -> Shade:
    said = f"attribution {number:.3g}"
    is_bad, size = not math.isfinite(number), abs(number)
    rank = math.inf if is_bad else size
    level = decades(number, result.numbers.values())
    return Shade((said,), ("", said), level, is_blamed=is_bad, rank=rank, weight=size)
