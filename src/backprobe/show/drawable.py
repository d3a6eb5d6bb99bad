"""A verb's findings about each value of a recording, as plain data that ``draw`` shows on the circuit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backprobe.record.entries import Entry, Record

LEVELS = 5
"""Fills that look different, from 0 to the darkest."""


@dataclass(frozen=True)
class Shade:
    """How one value is drawn: its lines, the same where there is little room, and how dark its fill is.

    ``level`` is from 0 to ``LEVELS - 1``, None for paper. ``is_blamed`` gives it a border that is seen first, and
    ``rank`` tells which of several values a box that holds them looks like: the one with the highest. ``excess`` is how
    many times the floor its error is.
    """

    lines: tuple[str, ...]
    brief: tuple[str, str] = ("", "")
    level: int | None = None
    is_blamed: bool = False
    rank: float = 0.0
    excess: float = 0.0


@dataclass(frozen=True)
class Drawable:
    """A recording, and the shade of each of its values by position; a value without one is drawn dashed.

    ``heading`` is what was found, in a sentence, ``legend`` says what the looks mean, and ``spelled`` is how a program
    calls what is drawn. ``partners`` are the values of another recording that it is compared with, by position, and
    ``backend`` is that of the other.
    """

    record: Record
    shades: Mapping[int, Shade]
    heading: str
    legend: tuple[str, ...]
    spelled: str
    partners: Mapping[int, Entry] = field(default_factory=dict)
    backend: str = ""
