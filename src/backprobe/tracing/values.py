"""The values of one recording and their names: plain data, independent of the running program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backprobe.record.entries import GradStatus
from backprobe.record.names import strip
from backprobe.record.reasons import Reason
from backprobe.source.sites import Site

NO_SITE = Site("", 0, "")
RETURNED = Site("return", 0, "")
"""Used as the site of the results of a probed model, for which no statement is known."""

OF_FORWARD = "forward()"
"""The local under which the return value of a module's forward is named, if a hook has changed what the caller gets."""

OWN = "\0"  # separates the name of a local from the number of its comprehension


class ScopeId:
    """One call of a function or of a module's forward. It has the first part of a name, before the colon, and the file
    of the code.
    """

    __slots__ = ("count", "counts", "entered", "file", "full", "parent", "path", "stripped")

    def __init__(self, parent: ScopeId | None, path: str, count: int, file: str = "") -> None:
        self.parent, self.path, self.file = parent, path, file
        self.counts: dict[str, int] = {}  # how often each local was bound
        self.entered: dict[str, int] = {}  # how often each function was entered from this scope
        self.stripped: str = strip(path) if parent is None or path[:1] != "/" else parent.stripped + path
        self.renumber(count)

    def renumber(self, count: int) -> None:
        """Set the number of this call among the calls with the same path. This also sets the full name."""
        self.count = count
        above: str = self.parent.full if self.parent is not None and self.path.startswith("/") else ""
        self.full: str = f"{above}{self.path}#{count}" if self.path else ""

    def printed(self, entered: Mapping[str, int]) -> str:
        """Return the printed name, with a count if there were several calls. ``entered`` counts the calls of scopes
        without a parent.
        """
        if not self.path:
            return ""
        above, siblings = "", entered
        if self.parent is not None:
            above, siblings = self.parent.printed(entered), self.parent.entered
        return f"{above}{self.path}" + (f"#{self.count}" if siblings.get(self.path, 1) > 1 else "")

    def next_count(self, local: str) -> int:
        """Count another binding of a local, and return its number."""
        count = self.counts.get(local, 0)
        self.counts[local] = count + 1
        return count

    def with_callers(self) -> Iterator[ScopeId]:
        """Yield this scope, its caller, the caller's caller, and so on."""
        scope: ScopeId | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


Slot = tuple[tuple[str, "Value"], ...]
"""The values under one name, each with the path of its leaf. A tensor has the path "", a container has one for each
value.
"""

NamedAs = tuple[ScopeId | None, str, int, str]
"""The scope, local, count and leaf of a name. For a parameter, the scope is None, and the local is its whole path."""

Transcript = list[tuple[str, str, Slot]]
"""What one run of a part of the program has bound, in order: the scope and the local, both without counts, and the
values.
"""


@dataclass(eq=False, slots=True)
class Value:
    """One value with its names: a captured tensor, a plain number, None, or a selected value that does not exist."""

    number: int | None  # the number of its capture, in the log from which it was read; None if not captured
    scope: ScopeId
    site: Site
    capture: Any = None
    plain_at: int | None = None  # the index among the plain numbers that were bound
    absent: tuple[GradStatus, Reason] | None = None  # why the value does not exist
    previous: Value | None = None  # the version of the same object before a write
    expression: str = ""  # the expression that computes exactly this value, if known
    calls: tuple[str, ...] = ()  # functions that the expression called
    reads: Sequence[tuple[str, Value]] = ()  # the values that the expression mentions, as written there
    passages: Sequence[tuple[str, Carried]] = ()  # values that flowed in indirectly; see ``Entry.indirect``
    names: list[NamedAs] = field(default_factory=list)
    fulls: Sequence[str] = ()  # full names, set after the run
    is_explained: bool = False  # were ``expression`` and ``reads`` set? A loop repeats statements
    around: tuple[Sequence[int], bool] | None = None  # the result of ``mentions`` for its statement
    original_at: int | None = None  # for a replacement: the index of the original value
    replaced_grad: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Carried:
    """A value that flows through a name without a tensor, and the last statement that mentioned the value by a name."""

    spelled: str
    value: Value
    scope: ScopeId
    site: Site


Carrying = dict[str, tuple[Carried, ...]]
"""By local: the values that flow through a name that holds no tensor."""


@dataclass(eq=False, slots=True)
class ScopeNames:
    """The names of one scope while it runs: the values that they hold now, and the calls of the running statement."""

    id: ScopeId
    parent: ScopeNames | None = None
    transcripts: Sequence[Transcript] = ()  # transcripts to fill, if a checkpoint recomputes this part
    slots: dict[str, Slot] = field(default_factory=dict)
    items: dict[str, Slot] = field(default_factory=dict)  # the contents of containers that have changed
    filled: set[str] = field(default_factory=set)  # containers that a call in the running statement has filled
    carried: Carrying = field(default_factory=dict)
    passed_over: dict[str, bool] = field(default_factory=dict)  # not selected: is the value differentiated?
    calls: list[str] = field(default_factory=list)
    returned: list[tuple[str, Slot]] = field(default_factory=list)  # return values of functions called so far
    lines: range = range(0)  # the range of the function's known lines
    own: frozenset[str] = frozenset()  # the variables that the function itself binds
    enclosing: ScopeNames | None = None  # the names of the function in which this one is defined

    def sees(self, name: str) -> Slot | None:
        """Return the values that a name means in this function; None if it holds none. The name is a variable of the
        function, or of an enclosing function.
        """
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
        """Bind a local to these values. The local becomes a further name of each value, or only of those in ``named``.

        ``own`` distinguishes a variable of a comprehension from a variable of the function with the same name.
        """
        scope = self.id
        count = scope.next_count(local)
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
        """Return these names as they are in the running statement, with copies of what it has called so far.

        The values of variables are shared with the scope. Its caller is left out.
        """
        return replace(
            self,
            parent=None,
            transcripts=(),
            items=dict(self.items),
            filled=set(),
            carried=dict(self.carried),
            passed_over={},
            calls=[*self.calls],
            returned=[*self.returned],
        )

    def release(self) -> None:
        """Release all values."""
        self.slots, self.items, self.carried, self.returned, self.enclosing = {}, {}, {}, [], None
