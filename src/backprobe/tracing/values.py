"""The values of one recording and the names that they have: plain data, which knows of no running program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.record.entries import GradStatus
from backprobe.record.names import strip
from backprobe.record.reasons import Reason
from backprobe.source.sites import Site

NO_SITE = Site("", 0, "")
RETURNED = Site("return", 0, "")
"""The site of the probed model's results: as for results of its modules, no statement is known."""

OF_FORWARD = "forward()"
"""The local for a result of a module's forward that hooks have replaced for the caller."""

OWN = "\0"  # between a local and the number of the comprehension it belongs to


class ScopeId:
    """One entry of a function or of a module's forward: the part of a name before the colon, and where its code is."""

    __slots__ = ("count", "counts", "entered", "file", "full", "parent", "path", "stripped")

    def __init__(self, parent: ScopeId | None, path: str, count: int, file: str = "") -> None:
        self.parent, self.path, self.file = parent, path, file
        self.counts: dict[str, int] = {}  # how often each local was bound
        self.entered: dict[str, int] = {}  # how often each function was entered from here
        self.stripped: str = strip(path) if parent is None or path[:1] != "/" else parent.stripped + path
        self.renumber(count)

    def renumber(self, count: int) -> None:
        """Set which of the entries of its path this is, and with it the full name."""
        self.count = count
        above: str = self.parent.full if self.parent is not None and self.path.startswith("/") else ""
        self.full: str = f"{above}{self.path}#{count}" if self.path else ""

    def printed(self, entered: Mapping[str, int]) -> str:
        """The name as it is printed: counted where there were several. ``entered`` counts entries without a parent."""
        if not self.path:
            return ""
        above, siblings = "", entered
        if self.parent is not None:
            above, siblings = self.parent.printed(entered), self.parent.entered
        return f"{above}{self.path}" + (f"#{self.count}" if siblings.get(self.path, 1) > 1 else "")

    def next_count(self, local: str) -> int:
        """Count one more binding of a local."""
        count = self.counts.get(local, 0)
        self.counts[local] = count + 1
        return count


Slot = tuple[tuple[str, "Value"], ...]
"""The values under one name: a tensor's under the leaf "", those of a container under their leaves."""

NamedAs = tuple[ScopeId | None, str, int, str]
"""Scope, local, count and leaf of a name; the scope is None for a parameter, whose local is its whole path."""

Transcript = list[tuple[str, str, Slot]]
"""What was named in one run of a part of the program: scope and local without counts, and the values."""


@dataclass(eq=False, slots=True)
class Value:
    """One value under its names: a captured tensor, a plain number or None, or what a module never returned."""

    number: int | None  # of its capture, in the log that it was read from
    scope: ScopeId
    site: Site
    capture: Any = None
    plain_at: int | None = None  # which of the numbers that were bound it is
    absent: tuple[GradStatus, Reason] | None = None  # why a module's return value does not exist
    previous: Value | None = None  # the same object's version before a write
    expression: str = ""  # the expression that computes exactly this value
    calls: tuple[str, ...] = ()  # what the expression called
    reads: Sequence[tuple[str, Value]] = ()  # the values that the expression mentions, as it spells them
    passages: Sequence[tuple[str, Carried]] = ()  # the values that came in by other ways, see ``Entry``
    names: list[NamedAs] = field(default_factory=list)
    fulls: Sequence[str] = ()  # the names in full, when the run is over
    is_explained: bool = False  # are its expression and reads known? A loop runs the same statement again
    around: tuple[Sequence[int], bool] | None = None  # what it was computed from, see ``Around``
    original_at: int | None = None  # which of the originals it took the place of
    replaced_grad: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Carried:
    """A value that a name without a tensor passes on, with the name and the statement that last held it as a value."""

    spelled: str
    value: Value
    scope: ScopeId
    site: Site


Carrying = dict[str, tuple[Carried, ...]]
"""What each name that holds no tensor passes on, by local."""


@dataclass(eq=False, slots=True)
class ScopeNames:
    """The names of one scope while it runs: what each holds now, and what the running statement has called."""

    id: ScopeId
    parent: ScopeNames | None = None
    transcripts: Sequence[Transcript] = ()  # where this part of the program is computed again, or will be
    slots: dict[str, Slot] = field(default_factory=dict)
    items: dict[str, Slot] = field(default_factory=dict)  # what is in a container now, where that has changed
    filled: set[str] = field(default_factory=set)  # containers that the function has changed which the statement called
    carried: Carrying = field(default_factory=dict)
    passed_over: dict[str, bool] = field(default_factory=dict)  # not selected: is what the name holds differentiated?
    calls: list[str] = field(default_factory=list)
    returned: list[tuple[str, Slot]] = field(default_factory=list)  # what the functions called so far have returned
    lines: range = range(0)  # of the function, as far as its statements are known
    own: frozenset[str] = frozenset()  # the variables that it binds itself
    enclosing: ScopeNames | None = None  # of the function that this one is defined in, if that runs

    def sees(self, name: str) -> Slot | None:
        """What a name holds where this function reads it: a variable of its own, or of a function around it."""
        if name in self.slots or (owner := self._owner(name)) is None:
            return self.items.get(name) if name in self.items else self.slots.get(name)
        return owner.sees(name)

    def has_passed_over(self, name: str) -> bool:
        """Is what a name holds differentiated, and was not selected?"""
        if name in self.passed_over or (owner := self._owner(name)) is None:
            return self.passed_over.get(name, False)
        return owner.has_passed_over(name)

    def _owner(self, name: str) -> ScopeNames | None:
        return None if name.partition(".")[0].partition("[")[0] in self.own else self.enclosing

    def bind(self, local: str, own: str, slot: Slot, named: Slot | None = None) -> None:
        """A local holds these values from now on. It is a new name of each, or of those ``named``.

        ``own`` tells the variable of a comprehension from one of the function with the same name.
        """
        scope = self.id
        count = scope.counts.get(local, 0)
        scope.counts[local] = count + 1
        for leaf, value in slot if named is None else named:
            value.names.append((scope, local, count, leaf))
        self.slots[local + own] = slot
        self.items.pop(local + own, None)
        for transcript in self.transcripts:
            transcript.append((scope.stripped, local, slot))

    def forget(self, *keys: str) -> None:
        for key in keys:
            self.slots.pop(key, None)
            self.items.pop(key, None)

    def snapshot(self) -> ScopeNames:
        """A copy of the present names, taken when the running statement is over."""
        return ScopeNames(
            self.id,
            None,
            (),
            self.slots,
            dict(self.items),
            set(),
            dict(self.carried),
            {},
            [*self.calls],
            [*self.returned],
            self.lines,
            self.own,
            self.enclosing,
        )

    def release(self) -> None:
        """Keep no value any longer."""
        self.slots, self.items, self.carried, self.returned, self.enclosing = {}, {}, {}, [], None
