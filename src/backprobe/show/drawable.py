"""Results of a verb about each value of a recording, as plain data that ``draw`` shows on the circuit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from backprobe.record.entries import Entry, Record

LEVELS = 5
"""The number of different fills, from 0 to the darkest."""


@dataclass(frozen=True)
class Shade:
    """How one value is drawn: its lines, shorter lines for small nodes, and how dark its fill is.

    ``level`` is from 0 to ``LEVELS - 1``, or None for no fill. ``is_blamed`` gives the value a highlighted border. A
    box is drawn like the value in it with the highest ``rank``. ``weight`` is the number by which similar modules are
    compared.
    """

    lines: tuple[str, ...]
    brief: tuple[str, str] = ("", "")
    level: int | None = None
    is_blamed: bool = False
    rank: float = 0.0
    weight: float = 0.0


@dataclass(frozen=True)
class Drawable:
    """A recording with the shade of each value, by position. A value without a shade is drawn dashed.

    ``heading`` is a sentence about the result, ``legend`` explains the drawing, and ``spelled`` is the program's
    expression for the drawn object. ``numbers`` are numbers of edges, by the positions of their ends. ``partners`` are
    the values of another recording with which the values are compared, by position, and ``backend`` is the backend of
    that recording. ``weighs`` describes the weights of shades, ``what`` is the kind of result, and ``alarm`` explains
    highlighted borders.
    """

    record: Record
    shades: Mapping[int, Shade]
    heading: str
    legend: tuple[str, ...]
    spelled: str
    numbers: Mapping[tuple[int, int], float] = field(default_factory=dict)
    partners: Mapping[int, Entry] = field(default_factory=dict)
    backend: str = ""
    weighs: str = "error in floors"
    what: Literal["diff", "attribution"] = "diff"
    alarm: str = "named by the report"


class HasDrawable(Protocol):
    """The result of a verb that ``draw`` can show on the circuit."""

    @property
    def drawable(self) -> Drawable | None: ...


def decades(number: float, among: Iterable[float]) -> int | None:
    """The level of a number: ``LEVELS - 1`` if its magnitude is the largest in ``among``, and one less for each decade
    below.

    >>> decades(-30.0, [300.0, -30.0]), decades(0.0, [1.0]), decades(1e-9, [1.0])
    (3, None, 0)
    """
    return decade(number, max(map(abs, filter(math.isfinite, among)), default=0.0))


def decade(number: float, largest: float) -> int | None:
    """The level of a number: ``LEVELS - 1`` from the magnitude ``largest`` on, and one less for each decade below.

    None for 0, for NaN and Inf, and if ``largest`` is 0.
    """
    if not (number and largest and math.isfinite(number)):
        return None
    return max(0, min(LEVELS - 1, LEVELS - 1 + round(math.log10(abs(number)) - math.log10(largest))))
