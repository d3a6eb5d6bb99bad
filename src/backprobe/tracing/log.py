"""The log of a running program: the events of its scopes, in one flat list that is read when the program is over.

An event has three items: the number of the reporting scope, a word, and details. The word of a statement that binds is
the number of its site, or that number plus ``NAMED`` or ``DONE``. All other words are negative.

A bound value is described by a code: the number of a captured tensor, one of the negative codes below, or for a
container the codes of its leaves. Events hold no tensor, so two runs that did the same have equal events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.record.patterns import Decisions, Selection
from backprobe.source.sites import Site
from backprobe.tracing.values import Transcript

NAMED, DONE = 1 << 20, 1 << 21
(
    EACH,
    FORGET,
    OVER,
    CALLED,
    BY_ITSELF,
    ENTER,
    AGAIN,
    LEAVE,
    MODULE,
    RESULT,
    MENTIONED,
    PARAMETER,
    ABSENT,
    HELD,
    OUTPUT,
    SWEPT,
    OVERWRITTEN,
    STORED,
    READ,
    REPLACED,
    CHANGED,
) = range(-1, -22, -1)
"""All words except the numbers of sites. ``Reader`` has a method for each of them."""

PLAIN, SAME_PLAIN, PASSED_OVER, DIFFERENTIATED, CARRIED, FILLED = range(-1, -7, -1)
"""Negative codes.

- ``PLAIN``: a number or None. ``SAME_PLAIN``: the same object that the name already held.
- ``PASSED_OVER``: a value that was not selected. ``DIFFERENTIATED``: such a value that is differentiated.
- ``CARRIED``: a value that holds no tensor. ``FILLED``: such a container, which may be filled later.
"""

UNKNOWN_ITEM = -1  # the code of an item that was not captured before it was put into a container

NO_SITE_AT = -1  # used instead of the number of a site if the statement is unknown

Code = int | tuple[tuple[str, int], ...]


@dataclass(eq=False, slots=True)
class Log:
    """The events so far, and data that may differ between two runs with equal events."""

    events: list[Any] = field(default_factory=list)
    plain: list[Any] = field(default_factory=list)  # the plain numbers that were bound, in order
    transcripts: dict[int, Sequence[Transcript]] = field(default_factory=dict)  # by index of an event; see ``Repeats``


class ScopeKind:
    """Facts shared by all calls of one module, or of one function from the same place. It is created once per
    selection.
    """

    __slots__ = (
        "file",
        "follows",
        "lines",
        "locals",
        "own",
        "path",
        "sites",
        "stripped",
        "wanted",
        "wants",
        "wants_return",
    )

    def __init__(self, selection: Selection, path: str, stripped: str, file: str, sites: Sequence[Site]) -> None:
        self.path, self.stripped, self.file, self.sites = path, stripped, file, sites
        self.wanted: Decisions[bool] = selection.of_scope(stripped)  # is this local, or this leaf, selected?
        self.follows = selection.wants_calls(stripped)
        self.locals = [site.local for site in sites]
        self.own = frozenset(self.locals)
        at = [site.line for site in sites]
        self.lines = range(min(at), max(at) + 1) if at else range(0)
        self.wants = [self.wanted[local] for local in self.locals]
        self.wants_return = self.wanted["return"]
