"""Numbers captured tensors while the program runs, and gives them new numbers after in-place writes.

A tensor gets a number when it is captured. A write gives it a new number for its new version: in the next sweep if a
live name holds the tensor or another view of its memory, and otherwise when the tensor is seen again.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Collection, Sequence
from operator import attrgetter, methodcaller
from typing import Any

from backprobe.backends import capabilities
from backprobe.backends.protocol import Tape
from backprobe.source.sites import Site
from backprobe.tracing.log import NO_SITE_AT, OVERWRITTEN, SWEPT, ScopeKind
from backprobe.tracing.scope import Scope

VERSION, HELD = attrgetter("version"), methodcaller("values")
DETACHED = -1  # stored instead of a version: the tensor needs a new number, although nothing was written to it
By = Scope | ScopeKind
"""The scope that binds a tensor, or the kind of scope of the module that returns the tensor."""


class Versions:
    """The captures of one recording, by number, and the tensors to which live names refer."""

    def __init__(self, tape: Tape, events: list[Any], around: Any, *, by_line: bool) -> None:
        self.tape, self.events, self.around, self.by_line = tape, events, around, by_line
        self.writes = tape if isinstance(tape, capabilities.Writes) else None
        self.late = tape if isinstance(tape, capabilities.Late) else None
        self.counted = tape if isinstance(tape, capabilities.Versions) else None
        self.version = _unchanging if self.counted is None else self.counted.version
        self.counter = _unchanging if self.counted is None else self.counted.counter
        self.identity = tape.identity
        self.waiting: Collection[Any] = () if self.late is None else self.late.waiting
        self.captures: list[Any] = []  # by number, as are ``tensors`` and ``versions``
        self.tensors: list[Any] = []
        self.versions: list[int] = []
        self.previous: dict[int, int] = {}  # by number: the number that the same object had before a write
        self.numbers: dict[int, int] = {}  # by the identity of a tensor: its latest number
        self.live: list[dict[Any, Any]] = []  # for each open scope: the tensors that its names hold now
        self.stamps: list[dict[Any, int]] = []  # for each tensor in ``live``: its version when it was captured
        self.through: dict[int, tuple[Any, int]] = {}  # by id: tensors that were written to; their versions then

    def number(self, tensor: Any, by: By, at: int | Site) -> int:
        """Return the number of a tensor at its current version. A new version gets a new number."""
        known = self.numbers.get(self.identity(tensor))
        if known is None:
            return self._capture(tensor, by, at, None)
        try:
            now = self.counter(tensor)
        except RuntimeError:
            now = self.version(tensor)
        if now != self.versions[known]:
            self.sweep(by, at)  # an unobserved write: all names on this memory get new versions
            swept = self.numbers[self.identity(tensor)]
            if swept == known:
                made = self._capture(tensor, by, at, known)
                self._note_overwritten(by, at)
                return made
            known = swept
        if self.waiting and self.late is not None and self.captures[known] in self.waiting:
            self.late.seen_again(self.captures[known])
        return known

    def _capture(self, tensor: Any, by: By, at: int | Site, previous: int | None) -> int:
        number, writes = len(self.captures), self.writes
        if writes is None:
            version = self.version(tensor)
            capture = self.tape.capture(tensor, functools.partial(self.around, by, at))
        else:
            if previous is None and not self.through:
                capture = writes.capture(tensor, None)
            else:
                before = None if previous is None else self.captures[previous]
                capture = writes.capture(tensor, None, before, bool(self.through) and self._wrote(tensor))
            version = capture.version
        self.captures.append(capture)
        self.tensors.append(tensor)
        self.versions.append(version)
        if previous is not None:
            self.previous[number] = previous
        self.numbers[self.identity(tensor)] = number
        return number

    def _wrote(self, tensor: Any) -> bool:
        # Was the last write to this tensor's memory made through this very object?
        found = self.through.get(id(tensor))
        return found is not None and found[0]() is tensor and found[1] == self.version(tensor)

    def add_all(self, writes: capabilities.Writes, tensors: Sequence[Any]) -> bool:
        """Capture several tensors, unless one of them already has a number. Returns whether they were captured."""
        new = dict(zip(map(self.identity, tensors), tensors, strict=True))
        if not self.numbers.keys().isdisjoint(new):
            return False
        found = [*new.values()]
        captures = writes.captures(found)
        self.numbers.update(zip(new, itertools.count(len(self.captures)), strict=False))
        self.captures += captures
        self.tensors += found
        self.versions += map(VERSION, captures)
        return True

    def add(self, capture: Any, tensor: Any) -> int:
        """Return a new number for a capture that was made elsewhere."""
        self.captures.append(capture)
        self.tensors.append(tensor)
        self.versions.append(0)
        return len(self.captures) - 1

    def decide(self, writes: capabilities.Writes, number: int, around: tuple[Sequence[int], bool]) -> None:
        """If a capture has no history, find out why. ``around`` contains the numbers of the captures from which it was
        computed.
        """
        if self.captures[number] in writes.undecided:
            writes.decide(self.captures[number], ([*map(self.captures.__getitem__, around[0])], around[1]))

    # Methods for live names.

    def bound(self, tensor: Any, scope: Scope, at: int, key: str) -> int:
        """Register that a name of a scope holds this tensor from now on. Returns the tensor's number."""
        number = self.numbers.get(self.identity(tensor))
        if number is None:
            number = self._capture(tensor, scope, at, None)
        else:
            try:
                now = self.counter(tensor)
            except RuntimeError:
                now = self.version(tensor)
            if now != self.versions[number] or (self.waiting and self.captures[number] in self.waiting):
                number = self.number(tensor, scope, at)
        if self.counted is not None:
            live = scope.live
            if not live:
                self._open(scope)
            if scope.several and key in scope.several:
                self.forget(scope, key)
            live[key] = tensor
            scope.stamps[key] = self.versions[number]
        return number

    def all_live(self, scope: Scope, key: str, numbers: Sequence[int]) -> None:
        """Register that a name of a scope holds a container with these tensors from now on."""
        if self.counted is None:
            return
        self.forget(scope, key)
        if numbers and not scope.live:
            self._open(scope)
        if len(numbers) > 1:
            scope.several = {**scope.several, key: len(numbers)}
        for place, number in enumerate(numbers):
            at = (key, place) if place else key
            scope.live[at], scope.stamps[at] = self.tensors[number], self.versions[number]

    def forget(self, scope: Scope, *keys: str) -> None:
        """Register that these names of a scope no longer hold a tensor."""
        for key in keys:
            if key in scope.live:
                del scope.live[key], scope.stamps[key]
            if key in scope.several:
                for place in range(1, scope.several[key]):
                    del scope.live[key, place], scope.stamps[key, place]
                scope.several = {name: count for name, count in scope.several.items() if name != key}

    def _open(self, scope: Scope) -> None:
        # Open a scope for live names. None of its names holds a tensor yet, but one is about to.
        if not scope.has_held:
            scope.has_held = True
            self.live.append(scope.live)
            self.stamps.append(scope.stamps)

    def leave(self, scope: Scope) -> None:
        """Called when a scope ends. None of its names is live any more."""
        if not scope.has_held:
            return
        if self.live[-1] is scope.live:
            self.live.pop()
            self.stamps.pop()
        else:  # another scope was entered since, for example by a generator
            at = next(at for at, live in enumerate(self.live) if live is scope.live)
            del self.live[at], self.stamps[at]
        scope.live.clear()
        scope.stamps.clear()
        scope.has_held, scope.several = False, {}

    def written(self, tensor: Any) -> None:
        """Called after the program has written to a tensor."""
        if self.writes is not None:
            self.writes.written(tensor)
            self.through[id(tensor)] = (weakref.ref(tensor), self.version(tensor))

    def sweep(self, by: By, at: int | Site) -> None:
        """Give a new version to every live name whose memory was written to, as far as the framework counts the write.
        Log the values that were overwritten by a write that the framework does not count.
        """
        if self.counted is None:
            return
        if self.late is not None and (self.late.waiting or self.by_line):
            line = self._line(by, at) if self.by_line else None
            if self.tape.disturbed():
                with self.tape.quiet():
                    self.late.look_again(line)
            else:
                self.late.look_again(line)
        if self.writes is not None and self.writes.has_found:
            self._mark_detached()
        now = self.counted.versions([*itertools.chain.from_iterable(map(HELD, self.live))])
        if now != [*itertools.chain.from_iterable(map(HELD, self.stamps))]:
            self._renew(now, by, at)
        if self.writes is not None and self.writes.has_found:
            self._note_overwritten(by, at)

    def _line(self, by: By, at: int | Site) -> tuple[str, int] | None:
        site = self._site(by, at)
        file = by.file if isinstance(by, ScopeKind) else by.kind.file
        return (file, site.line) if site is not None and site.line else None

    def _site(self, by: By, at: int | Site) -> Site | None:
        if isinstance(at, Site):
            return at
        return None if at == NO_SITE_AT else by.sites[at]

    def _mark_detached(self) -> None:
        detached = () if self.writes is None else self.writes.detached()
        if not detached:
            return
        for number, capture in enumerate(self.captures):
            if capture in detached:
                self.versions[number] = DETACHED
        for live, stamps in zip(self.live, self.stamps, strict=True):
            for key, tensor in live.items():
                held = self.numbers.get(self.tape.identity(tensor))
                if held is not None:
                    stamps[key] = self.versions[held]

    def _renew(self, now: list[int], by: By, at: int | Site) -> None:
        # Capture live tensors that were written to, and log the number of each old capture with that of the new one.
        pairs: dict[int, int] = {}
        with self.tape.quiet():
            self._capture_written(now, by, at, pairs)
        self._say(by, SWEPT, at, tuple(pairs.items()))

    def _capture_written(self, now: list[int], by: By, at: int | Site, pairs: dict[int, int]) -> None:
        held = [(*one, stamps) for live, stamps in zip(self.live, self.stamps, strict=True) for one in live.items()]
        for (key, tensor, stamps), version in zip(held, now, strict=True):
            if version != stamps[key]:
                known = self.numbers[self.tape.identity(tensor)]
                if version != self.versions[known]:
                    pairs[known] = self._capture(tensor, by, at, known)
                stamps[key] = version

    def _note_overwritten(self, by: By, at: int | Site) -> None:
        if self.writes is None:
            return
        with self.tape.quiet():
            captures = self.writes.overwritten()
        if captures:
            numbers = tuple(number for number, capture in enumerate(self.captures) if capture in captures)
            self._say(by, OVERWRITTEN, at, numbers)

    def _say(self, by: By, word: int, at: int | Site, said: Any) -> None:
        self.events += (0 if isinstance(by, ScopeKind) else by.number, word, (at, said))

    def release(self) -> None:
        """Release everything."""
        for names in (*self.live, *self.stamps):
            names.clear()
        held: tuple[Any, ...] = (
            self.captures,
            self.tensors,
            self.versions,
            self.previous,
            self.numbers,
            self.live,
            self.stamps,
            self.through,
        )
        for one in held:
            one.clear()
        del self.around


def _unchanging(tensor: Any) -> int:
    # Return the version of a tensor in a framework whose tensors never change: always the same.
    return 0
