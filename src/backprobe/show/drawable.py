"""A verb's findings about each value of a recording, as plain data that ``draw`` shows on the circuit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from backprobe.record.entries import Entry, Record

LEVELS = 5
"""Fills that look different, from 0 to the darkest."""


@dataclass(frozen=True)
class Shade:
    """How one value is drawn: its lines, the same where there is little room, and how dark its fill is.

    ``level`` is from 0 to ``LEVELS - 1``, None for paper. ``is_blamed`` gives it a border that is seen first, and
    ``rank`` tells which of several values a box that holds them looks like: the one with the highest. ``weight`` is the
    number itself, by which modules that are alike are compared.
    """

    lines: tuple[str, ...]
    brief: tuple[str, str] = ("", "")
    level: int | None = None
    is_blamed: bool = False
    rank: float = 0.0
    weight: float = 0.0


@dataclass(frozen=True)
class Drawable:
    """A recording, and the shade of each of its values by position; a value without one is drawn dashed.

    ``heading`` is what was found, in a sentence, ``legend`` says what the looks mean, and ``spelled`` is how a program
    calls what is drawn. ``numbers`` are those of edges, by the positions of their ends. ``partners`` are the values of
    another recording that it is compared with, by position, and ``backend`` is that of the other.
    ``weighs`` says what the weights of shades are, ``what`` of which verb this is, and ``alarm`` why a value has a
    border that is seen first.
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
    """A result of a verb that ``draw`` shows on the circuit."""

    @property
    def drawable(self) -> Drawable | None: ...


def decades(number: float, among: Iterable[float]) -> int | None:
    """The level of a number: ``LEVELS - 1`` for the largest magnitude among some, one less for each decade below it.

    >>> decades(-30.0, [300.0, -30.0]), decades(0.0, [1.0]), decades(1e-9, [1.0])
    (3, None, 0)
    """
    largest = max(map(abs, filter(math.isfinite, among)), default=0.0)
    if not (number and largest and math.isfinite(number)):
        return None
    return max(0, LEVELS - 1 + round(math.log10(abs(number)) - math.log10(largest)))
