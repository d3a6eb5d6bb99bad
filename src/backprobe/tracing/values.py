"""The values of one recording and their names: plain data, independent of the running program."""

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
"""The site of the probed model's results. No statement is known for them, nor for the results of its modules."""

OF_FORWARD = "forward()"
"""The local for the return value of a module's forward, if a hook has returned another value to the caller."""

OWN = "\0"  # separates a local from the number of its comprehension


class ScopeId:
    """One call of a function or of a module's forward: the part of a name before the colon, and the code's file."""

    __slots__ = ("count", "counts", "entered", "file", "full", "parent", "path", "stripped")

    def __init__(self, parent: ScopeId | None, path: str, count: int, file: str = "") -> None:
        self.parent, self.path, self.file = parent, path, file
        self.counts: dict[str, int] = {}  # how often each local was bound
        self.entered: dict[str, int] = {}  # how often each function was entered from here
        self.stripped: str = strip(path) if parent is None or path[:1] != "/" else parent.stripped + path
        self.renumber(count)

    def renumber(self, count: int) -> None:
        """Set the number of this call among the calls with its path, and thereby the full name."""
        self.count = count
        above: str = self.parent.full if self.parent is not None and self.path.startswith("/") else ""
        self.full: str = f"{above}{self.path}#{count}" if self.path else ""

    def printed(self, entered: Mapping[str, int]) -> str:
        """The printed name, with a count if there were several calls. ``entered`` counts calls without a parent."""
        if not self.path:
            return ""
        above, siblings = "", entered
        if self.parent is not None:
            above, siblings = self.parent.printed(entered), self.parent.entered
        return f"{above}{self.path}" + (f"#{self.count}" if siblings.get(self.path, 1) > 1 else "")

    def next_count(self, local: str) -> int:
        """Count one more binding of a local, and return its number."""
        count = self.counts.get(local, 0)
        self.counts[local] = count + 1
        return count


Slot = tuple[tuple[str, "Value"], ...]
"""The values under one name, by leaf. A tensor has the leaf ""; a container has a leaf for each of its values."""

NamedAs = tuple[ScopeId | None, str, int, str]
"""Scope, local, count and leaf of a name; the scope is None for a parameter, whose local is its whole path."""

Transcript = list[tuple[str, str, Slot]]
"""The bindings in one run of a part of the program: scope and local without counts, and the values."""


@dataclass(eq=False, slots=True)
class Value:
    """One value with its names: a captured tensor, a plain number, None, or a module's absent return value."""

    number: int | None  # the number of its capture, in the log from which it was read
    scope: ScopeId
    site: Site
    capture: Any = None
    plain_at: int | None = None  # its index among the plain numbers that were bound
    absent: tuple[GradStatus, Reason] | None = None  # why a module's return value does not exist
    previous: Value | None = None  # the same object's version before a write
    expression: str = ""  # the expression that computes exactly this value
    calls: tuple[str, ...] = ()  # functions that the expression called
    reads: Sequence[tuple[str, Value]] = ()  # the values that the expression mentions, as it spells them
    passages: Sequence[tuple[str, Carried]] = ()  # values that flowed in indirectly: see ``Entry``
    names: list[NamedAs] = field(default_factory=list)
    fulls: Sequence[str] = ()  # full names, set after the run
    is_explained: bool = False  # are expression and reads set? A loop repeats statements
    around: tuple[Sequence[int], bool] | None = None  # the captures that its statement mentions: see ``Around``
    original_at: int | None = None  # if it is a replacement: the index of the original
    replaced_grad: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Carried:
    """A value that a name without a tensor passes on, with the statement that last mentioned it by a name."""

    spelled: str
    value: Value
    scope: ScopeId
    site: Site


Carrying = dict[str, tuple[Carried, ...]]
"""The values that each name without a tensor passes on, by local."""


@dataclass(eq=False, slots=True)
class ScopeNames:
    """The names of one scope while it runs: what each holds now, and the calls of the running statement."""

    id: ScopeId
    parent: ScopeNames | None = None
    transcripts: Sequence[Transcript] = ()  # if this part of the program is recomputed, now or later
    slots: dict[str, Slot] = field(default_factory=dict)
    items: dict[str, Slot] = field(default_factory=dict)  # the contents of containers that have changed
    filled: set[str] = field(default_factory=set)  # containers changed by a function that the statement called
    carried: Carrying = field(default_factory=dict)
    passed_over: dict[str, bool] = field(default_factory=dict)  # names not selected: is their value differentiated?
    calls: list[str] = field(default_factory=list)
    returned: list[tuple[str, Slot]] = field(default_factory=list)  # return values of the functions called so far
    lines: range = range(0)  # the lines of the function's known statements
    own: frozenset[str] = frozenset()  # the variables that the function itself binds
    enclosing: ScopeNames | None = None  # of the running function in which this one is defined

    def sees(self, name: str) -> Slot | None:
        """What a name holds for this function: its own variable, or one of an enclosing function."""
        if name in self.slots or (owner := self._owner(name)) is None:
            return self.items.get(name) if name in self.items else self.slots.get(name)
        return owner.sees(name)

    def has_passed_over(self, name: str) -> bool:
        """Does a name hold a differentiated value that was not selected?"""
        if name in self.passed_over or (owner := self._owner(name)) is None:
            return self.passed_over.get(name, False)
        return owner.has_passed_over(name)

    def _owner(self, name: str) -> ScopeNames | None:
        return None if name.partition(".")[0].partition("[")[0] in self.own else self.enclosing

    def bind(self, local: str, own: str, slot: Slot, named: Slot | None = None) -> None:
        """A local holds these values from now on. It becomes a new name of each value, or only of those in ``named``.

        ``own`` distinguishes the variable of a comprehension from one of the function with the same name.
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
        """A copy of the present names, as they are when the running statement is over."""
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
        """Release all values."""
        self.slots, self.items, self.carried, self.returned, self.enclosing = {}, {}, {}, [], None
