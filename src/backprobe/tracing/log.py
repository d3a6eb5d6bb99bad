"""The log of a running program: what its scopes report, in one flat list that is read when the program is over.

Each event is three items: the number of the scope that reports, a word, and what is said with it. The word of a
statement that binds is the number of its site; ``NAMED`` and ``DONE`` are added to that. All other words are negative.

What is bound is said by a code: the number of a captured tensor, one of the negative codes below, or for a container
the codes of its leaves. A log holds no tensor, so that two runs which did the same have equal logs.
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
"""The other words; ``Reader`` has a method for each."""

PLAIN, SAME_PLAIN, PASSED_OVER, DIFFERENTIATED, CARRIED, FILLED = range(-1, -7, -1)
"""A number or None; the very one that the name held; what was not selected, and whether it is differentiated; what
holds no tensor, and whether it is a container that may be filled later."""

UNKNOWN_ITEM = -1  # the code of a tensor in a container that was not captured when it was put in

NO_SITE_AT = -1  # in the place of a site's number: no statement is known

Code = int | tuple[tuple[str, int], ...]


@dataclass(eq=False, slots=True)
class Log:
    """The events so far, and beside them what two runs that did the same may differ in."""

    events: list[Any] = field(default_factory=list)
    plain: list[Any] = field(default_factory=list)  # the numbers that were bound, in their order
    transcripts: dict[int, Sequence[Transcript]] = field(default_factory=dict)  # by the place of the event, see Repeats


class ScopeKind:
    """What is the same at every entry of one function from one place, or of one module: made once for a selection."""

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
        self.wanted: Decisions[bool] = selection.of_scope(stripped)  # is this local, or leaf of one, selected?
        self.follows = selection.wants_calls(stripped)
        self.locals = [site.local for site in sites]
        self.own = frozenset(self.locals)
        at = [site.line for site in sites]
        self.lines = range(min(at), max(at) + 1) if at else range(0)
        self.wants = [self.wanted[local] for local in self.locals]
        self.wants_return = self.wanted["return"]
