"""A comparison as a drawing: the circuit of the second recording, with each value coloured by its error."""

from __future__ import annotations

import math
from collections.abc import Sequence

from backprobe.diff import text
from backprobe.diff.pairs import VALUE, JudgedNumbers, Row
from backprobe.record.entries import Record
from backprobe.show.drawable import LEVELS, Drawable, Shade

LEGEND = (
    "fill: the larger error of value and gradient: 1 to 10 × the floor, to 100, to 1,000, and above",
    "thick border: what the report names; dashed border: not compared",
)


def drawable(
    record: Record, rows: Sequence[Row], heading: str, blamed: Sequence[tuple[str, str]], backend: str
) -> Drawable:
    """Return the drawing. ``blamed`` has the name and direction of each finding, the most important first.

    ``record`` is the second recording's record, and ``backend`` is the first recording's backend.
    """
    order = {one: number for number, one in enumerate(blamed)}
    shades = {row.match.b: _shade(row, order) for row in rows}
    partners = {row.match.b: row.a for row in rows}
    return Drawable(record, shades, heading, LEGEND, "report", partners=partners, backend=backend)


def level(excess: float) -> int | None:
    """The shade for an error that is ``excess`` times the floor; None within the floor.

    >>> level(0.5), level(2.0), level(20.0), level(float("inf"))
    (None, 1, 2, 4)
    """
    if not excess > 1:
        return None
    return LEVELS - 1 if math.isinf(excess) else max(1, min(LEVELS - 1, math.ceil(math.log10(excess))))


def _shade(row: Row, order: dict[tuple[str, str], int]) -> Shade:
    both = (("value", "forward", row.value), ("gradient", "backward", row.gradient))
    excess = max(one.excess if one.kind else 0.0 for _, _, one in both)
    own, other = row.names
    numbers = [order[own, way] for _, way, _ in both if (own, way) in order]
    partner = [] if own == other else [f"{own} in the first"]
    lines = [line for what, _, one in both if (line := _line(what, one))]
    return Shade(
        (*partner, *lines),
        (_brief("", row.value), _brief("gradient ", row.gradient)),
        level(excess),
        is_blamed=bool(numbers),
        rank=math.inf if numbers else excess,
        weight=excess,
    )


def _line(what: str, judged: JudgedNumbers) -> str:
    if judged.kind:
        return f"{what} differs{_how(judged)}"
    said = _agreeing(judged)
    return f"{what} {said}" if said else ""


def _how(judged: JudgedNumbers) -> str:
    if judged.kind != VALUE:
        return f" in its {judged.kind}"
    if judged.measure is None or judged.measure.clashes:
        return ""
    return f": relative error {text.number(judged.measure.relative)}, {text.times(judged.excess)}"


def _agreeing(judged: JudgedNumbers) -> str:
    if judged.measure is None:
        return "" if judged.why else "equal"
    return f"agrees, {text.times(judged.excess)}" if judged.measure.differing else "equal"


def _brief(what: str, judged: JudgedNumbers) -> str:
    # Describe the result for one pair in short form.
    if judged.kind == VALUE and judged.measure is not None and not judged.measure.clashes:
        return what + text.times(judged.excess)
    if judged.kind:
        return f"{what}differs{_how(judged)}"
    return what + said if (said := _agreeing(judged)) else ""
