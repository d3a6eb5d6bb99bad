"""Captured tensors while the program runs: which number each has now, and new numbers after in-place writes.

A tensor gets a number when it is captured. A write gives it another at its new version, at once where it, or a view of
its memory, has a live name.
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
DETACHED = -1  # no version of any tensor: what has this name is another one, though nobody has written to it
By = Scope | ScopeKind
"""Who binds a tensor: a scope, or a module that returns it, by its kind."""


class Versions:
    """The captures of one recording by their numbers, and the tensors that have live names."""

    def __init__(self, tape: Tape, events: list[Any], around: Any, *, by_line: bool) -> None:
        self.tape, self.events, self.around, self.by_line = tape, events, around, by_line
        self.writes = tape if isinstance(tape, capabilities.Writes) else None
        self.late = tape if isinstance(tape, capabilities.Late) else None
        self.counted = tape if isinstance(tape, capabilities.Versions) else None
        self.version = _unchanging if self.counted is None else self.counted.version
        self.counter = _unchanging if self.counted is None else self.counted.counter
        self.identity = tape.identity
        self.waiting: Collection[Any] = () if self.late is None else self.late.waiting
        self.captures: list[Any] = []  # these three by number
        self.tensors: list[Any] = []
        self.versions: list[int] = []
        self.previous: dict[int, int] = {}  # the numbers of the same objects before a write
        self.numbers: dict[int, int] = {}  # the latest of each tensor, by its identity
        self.live: list[dict[Any, Any]] = []  # of the scopes that run: the tensors that their names hold
        self.stamps: list[dict[Any, int]] = []  # and of each the version at which it was captured
        self.has_unseen_writes = False  # was one of these written by what was not seen to write?
        self.through: dict[int, tuple[Any, int]] = {}  # tensors written, weakly, and the version that made

    def number(self, tensor: Any, by: By, at: int | Site) -> int:
        """The number of a tensor at the version that it has: a known one, or a new one where that is new."""
        known = self.numbers.get(self.identity(tensor))
        if known is None:
            return self._capture(tensor, by, at, None)
        try:
            now = self.counter(tensor)
        except RuntimeError:
            now = self.version(tensor)
        if now != self.versions[known]:
            self.sweep(by, at)  # written out of sight: every name on that memory gets its new version
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
            self.has_unseen_writes = self.has_unseen_writes or not self._wrote(tensor)
        self.numbers[self.identity(tensor)] = number
        return number

    def _wrote(self, tensor: Any) -> bool:
        # Did the write that made the version of a tensor go through this very object?
        found = self.through.get(id(tensor))
        return found is not None and found[0]() is tensor and found[1] == self.version(tensor)

    def add_all(self, writes: capabilities.Writes, tensors: Sequence[Any]) -> bool:
        """Capture several tensors, unless one of them has a number."""
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
        """A number for what was captured otherwise."""
        self.captures.append(capture)
        self.tensors.append(tensor)
        self.versions.append(0)
        return len(self.captures) - 1

    def decide(self, writes: capabilities.Writes, number: int, around: tuple[Sequence[int], bool]) -> None:
        """Why a capture has no history, if it has none: it was computed from captures of these numbers."""
        if self.captures[number] in writes.undecided:
            writes.decide(self.captures[number], ([*map(self.captures.__getitem__, around[0])], around[1]))

    # live names

    def bound(self, tensor: Any, scope: Scope, at: int, key: str) -> int:
        """The number of a tensor that a name of a scope holds from now on."""
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
        """From now on it holds these tensors, in a container."""
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
        """These names of a scope hold no tensor any longer."""
        for key in keys:
            if key in scope.live:
                del scope.live[key], scope.stamps[key]
            if key in scope.several:
                for place in range(1, scope.several[key]):
                    del scope.live[key, place], scope.stamps[key, place]
                scope.several = {name: count for name, count in scope.several.items() if name != key}

    def _open(self, scope: Scope) -> None:
        # A name of this scope is about to hold a tensor, and none does now.
        if not scope.has_held:
            scope.has_held = True
            self.live.append(scope.live)
            self.stamps.append(scope.stamps)

    def leave(self, scope: Scope) -> None:
        """None of its names is live."""
        if not scope.has_held:
            return
        if self.live[-1] is scope.live:
            self.live.pop()
            self.stamps.pop()
        else:  # another was entered since, as by a generator
            at = next(at for at, live in enumerate(self.live) if live is scope.live)
            del self.live[at], self.stamps[at]
        scope.live.clear()
        scope.stamps.clear()
        scope.has_held, scope.several = False, {}

    def written(self, tensor: Any) -> None:
        """The program has written to a tensor."""
        if self.writes is not None:
            self.writes.written(tensor)
            self.through[id(tensor)] = (weakref.ref(tensor), self.version(tensor))

    def sweep(self, by: By, at: int | Site) -> None:
        """Every live name whose memory has been written since gets a new version."""
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
        # Capture what is live and was written, and say which numbers took the place of which.
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
        """Keep nothing any longer."""
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
    # The version of every tensor where tensors keep their contents.
    return 0
