"""The course of a call: the events of its journal, kept so that an equal journal need not be read next time.

A journal (``journal``) is processed in segments. A segment is learned when it is read. A later journal fits it if four
things are equal: its words, the types of its values, which values are the same object, and which tensors have a
history. The events before it must be equal as well. All this is compared in C. Reading a journal that fits would give
the same events, and captures at the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from backprobe.record.containers import SIMPLE
from backprobe.tracing.lent_copies import Known, LentCopies
from backprobe.tracing.log import (
    CALLED,
    DIFFERENTIATED,
    DONE,
    ENTER,
    LEAVE,
    MENTIONED,
    MODULE,
    PASSED_OVER,
    PLAIN,
    ScopeKind,
)
from backprobe.tracing.spread import Spread, getter

FAILED, OF_MODULE = -101, -102
"""Words of a journal that a log does not have: a scope is left by an error; a module with this path is called."""

MOST, MOST_IN_ALL = 4, 256
"""The most segments that are kept as followers of one segment, and for one selection."""

MOST_MISSED = 16
"""If this many more segments were read than followed, the program does not repeat itself: following ends."""

READ_ALIKE = frozenset({CALLED, ENTER, LEAVE, MENTIONED, MODULE})
"""Words of a log whose events depend on the journal alone, so that an equal journal gives the same events."""

compare: Callable[[Segment, Segment | None], None] | None = None
"""For tests: called with a segment that would be followed, and the segment learned by reading the same journal."""


class StateBefore(NamedTuple):
    """The state of a trace when a segment begins."""

    captures: int
    events: int
    plain: int
    scopes: int
    mode: bool
    open: tuple[tuple[int, int, bool], ...]
    """For each open scope: its number, how many modules it has called, and whether it is dirty."""


class HeldScope(NamedTuple):
    """A scope that is open when a segment ends, described by numbers."""

    kind: ScopeKind
    number: int
    module: str | None
    called: tuple[str, ...]
    live: tuple[tuple[Any, int], ...]
    several: tuple[tuple[str, int], ...]


def before(journal: Any) -> StateBefore:
    """The state of a journal's trace before the journal is processed."""
    trace = journal.trace
    frames = [(one.scope.number, len(one.called), one.scope.dirty) for one in journal.reading.frames]
    counts = len(trace.versions.captures), len(trace.events), len(trace.plain), trace.scopes
    return StateBefore(*counts, journal.mode, tuple(frames))


class Courses:
    """The segments known for one selection, and whether its programs repeat themselves."""

    def __init__(self) -> None:
        self.following: list[Segment] = []  # segments that begin a journal, like ``Segment.following``
        self.known = self.followed = self.missed = 0
        self.takes_all: bool | None = None  # is every bound tensor captured?
        self.is_repeated = False  # was the last run equal to an earlier one?
        # the journal's items for calls of methods that write nothing
        self.reads: dict[tuple[type, str], tuple[int, str]] = {}
        # the journal's items for calls of functions, by the id of the function
        self.functions: dict[int, Known] = {}
        # the journal's items for calls of those functions that write nothing
        self.readers: dict[int, tuple[Any, ...]] = {}
        self.of_modules: dict[str, tuple[Any, ...]] = {}  # the journal's items for calls of modules, by path
        self.lent: LentCopies | None = None  # the copies of the last journal, unless a journal uses them now
        self.has_unseen_writes = False  # has code that is not followed written to captured tensors?

    def borrow(self) -> LentCopies:
        """The copies for a journal."""
        found, self.lent = self.lent, None
        return LentCopies() if found is None or not found.are_current else found

    def take_back(self, lent: LentCopies) -> None:
        """A journal no longer uses these copies."""
        lent.journal = None
        if self.lent is None:
            self.lent = lent
        else:
            lent.give_back()

    @property
    def are_useful(self) -> bool:
        """May a journal be followed instead of being read?"""
        return self.is_repeated and not self.has_unseen_writes and self.missed <= MOST_MISSED + self.followed // 2

    def takes_all_of(self, events: Sequence[Any]) -> bool:
        """Does a log capture all tensors that were bound? A journal must not keep tensors that are not selected."""
        if self.takes_all is None:
            self.takes_all = all(
                code not in (PASSED_OVER, DIFFERENTIATED) for code in events[2::3] if type(code) is int
            )
        return self.takes_all

    def find(self, journal: Any, now: StateBefore) -> tuple[Segment, list[Any]] | None:
        """A known segment that fits this journal, and the values in the journal; None if there is none."""
        after: Courses | Segment = journal.previous or self
        for known in after.following:
            items = known.fits(journal, now)
            if items is not None:
                if known is not after.following[0]:
                    after.following = [known, *(one for one in after.following if one is not known)]
                self.followed += 1
                return known, items
        self.missed += 1
        return None

    def keep(self, journal: Any, made: Segment) -> Segment:
        """Remember a segment for the next time. If an equal one is known already, that one is returned."""
        after: Courses | Segment = journal.previous or self
        for known in after.following:
            if not differences(known, made):
                return known
        if self.known < MOST_IN_ALL:
            after.following = [made, *after.following[: MOST - 1]]
            self.known += 1
        return made


class Segment:
    """The part of a journal between two places at which it was settled."""

    def __init__(self, journal: Any, state: StateBefore, places: _Places) -> None:
        self.before, self.size = state, len(journal)
        self.between = _between(journal, state)
        self.following: list[Segment] = []
        trace = journal.trace
        self.get_words = getter(places.words)
        self.words = self.get_words(journal)
        flat = trace.ordinary | SIMPLE | trace.bare
        self.spread = spread = Spread(journal, places.values, state.captures, flat)
        items, mixed = spread.items, {at for at, code in journal.reading.codes if _has_numbers(code)}
        inside = range(len(places.values) + state.captures, len(items))
        numbers = {place for (at, _), place in spread.leaves.items() if at in mixed}
        kinds = [*map(type, items)]
        self.get_texts = getter(sorted({*spread.keys, *(at for at in inside if kinds[at] is str)}))
        self.texts = self.get_texts(items)
        numbers.update(range(spread.others_from, len(items)))
        objects = [at for at, kind in enumerate(kinds) if kind in trace.ordinary or at in numbers]
        self.get_objects = getter(objects)
        self.pattern = _pattern(self.get_objects(items))
        self.first = {id(items[at]): at for at in reversed(objects)}
        self.get_tensors = getter(sorted(at for at in {*self.first.values()} if kinds[at] in trace.ordinary))
        self.natures = journal.tape.natures(self.get_tensors(items))
        self.place_of = {at: place for place, at in enumerate(places.values)}

    @classmethod
    def of(cls, journal: Any, state: StateBefore) -> Segment | None:
        """The segment that has just been read; None if an equal journal might give other events."""
        if not _reads_alike(journal, state):
            return None
        made = cls(journal, state, _Places.of(journal))
        return made if made._learn(journal) else None

    def _learn(self, journal: Any) -> bool:
        # Learn what reading the journal has added to the trace: events, and the places of tensors and numbers in the
        # journal.
        trace, state, items = journal.trace, self.before, self.spread.items
        running, said = _held(journal), trace.plain[state.plain :]
        tensors = trace.versions.tensors
        made = [*map(id, tensors[state.captures :])]  # a tensor that was written to has been captured before
        found = [*map(self.first.get, made)]
        self.captured = [at for at in found if at is not None]
        self.plain = [at for at in self._plain(journal) if at is not None]
        are_new = len({*made}) == len(made) and {*made}.isdisjoint(map(id, tensors[: state.captures]))
        are_all_there = are_new and len(self.captured) == len(made) and len(self.plain) == len(said)
        if (
            running is None
            or not are_all_there
            or any(items[at] is not one for at, one in zip(self.plain, said, strict=True))
        ):
            return False
        self.get_captured, self.get_plain = getter(self.captured), getter(self.plain)
        self.events, self.scopes = trace.events[state.events :], trace.scopes
        self.executed = {said[0].path for word, said in _turns(self.events) if word == MODULE}
        self.held, self.live = running
        last = journal.reading.last
        self.last: tuple[ScopeKind, str, int | None] | None = None
        if not self.held and last is not None:
            returned = None if last.returned_at is None else self.place_of[last.returned_at]
            self.last = last.scope.kind, journal.reading.paths[last.module], returned
        del self.first, self.place_of, self.spread.items, self.spread.leaves
        return True

    def _plain(self, journal: Any) -> Iterator[int | None]:
        # The places of the numbers that have codes, in the order of their codes.
        for at, code in journal.reading.codes:
            if code == PLAIN:
                yield self.place_of.get(at)
            elif _has_numbers(code):
                for leaf, one in code:
                    if one < 0:
                        yield self.spread.leaves.get((at, leaf))

    def fits(self, journal: Any, now: StateBefore) -> list[Any] | None:
        """The values in a journal, if reading it would give the events of this segment; otherwise None."""
        if now != self.before or any(is_dirty for _, _, is_dirty in now.open) or len(journal) != self.size:
            return None
        # Words are compared first. Up to the first one that differs, words are at the same places in both journals, so
        # no value is compared with a word.
        if self.get_words(journal) != self.words:
            return None
        if _between(journal, now) != self.between or not is_unwritten(journal.trace.versions):
            return None
        items = self.spread.of(journal)
        is_same = (
            items is not None
            and self.get_texts(items) == self.texts
            and _pattern(self.get_objects(items)) == self.pattern
            and journal.tape.natures(self.get_tensors(items)) == self.natures
        )
        return items if is_same else None

    def follow(self, journal: Any, items: Sequence[Any]) -> None:
        """Bring the trace into the state that reading this journal would give. ``items`` are the journal's values."""
        trace, reading = journal.trace, journal.reading
        is_new = trace.versions.add_all(trace.writes, self.get_captured(items))
        assert is_new, "a tensor that was captured again"
        trace.events += self.events
        trace.plain += self.get_plain(items)
        trace.scopes = self.scopes
        reading.executed |= self.executed
        reading.restore(self.held, self.live, journal.by_path if self.held or self.last else {})
        if self.last is not None:
            kind, path, returned = self.last
            reading.leave_last(kind, journal.by_path[path], None if returned is None else items[returned])


def differences(known: Segment, made: Segment | None) -> list[str]:
    """The differences between a segment that fits a journal and the one learned by reading it. There must be none."""
    if made is None:
        return ["an equal journal may say something else"]
    fields = ("before", "between", "events", "captured", "plain", "scopes", "executed", "held", "live", "last")
    return [
        f"{name}: {getattr(known, name)!r} != {getattr(made, name)!r}"
        for name in fields
        if getattr(known, name) != getattr(made, name)
    ]


class _Places(NamedTuple):
    # The places of the words in a journal, and of the values that were bound, mentioned or returned.
    words: list[int]
    values: list[int]

    @classmethod
    def of(cls, journal: Sequence[Any]) -> _Places:
        found, at = cls([], []), 0
        while at < len(journal):
            word = journal[at]
            found.words.append(at)
            at += 1
            if 0 <= word < DONE or word == MENTIONED:
                found.values.append(at)
                at += 1
            elif word in (CALLED, OF_MODULE):
                found.words.append(at)
                at += 1
            elif word == ENTER:
                found.words.append(at)
                at += 2  # skips the module, which the kind before it identifies
        return found


def _has_numbers(code: Any) -> bool:
    # Is one of the codes in a container negative, as the code of a number is?
    return isinstance(code, tuple) and any(one < 0 for _, one in code)


def _reads_alike(journal: Any, state: StateBefore) -> bool:
    # Would an equal journal always give the same events?
    trace, last = journal.trace, journal.reading.last
    is_over = not journal.reading.frames and last is not None
    if not trace.codes.mixed.keys() <= ({last.scope.kind.path} if is_over else set()):
        return False
    if trace.codes.holders or trace.log.transcripts or trace.has_more or trace.reader is not None:
        return False
    if any(word < 0 and word not in READ_ALIKE for word, _ in _turns(trace.events[state.events :])):
        return False
    return not any(code in (PASSED_OVER, DIFFERENTIATED) for _, code in journal.reading.codes)


def _turns(events: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    return zip(events[1::3], events[2::3], strict=True)


def _held(journal: Any) -> tuple[list[HeldScope], list[int]] | None:
    # The open scopes, and the order in which their names began to hold tensors. None if a scope has any other state.
    versions, paths = journal.trace.versions, journal.reading.paths
    found: list[HeldScope] = []
    frames = journal.reading.frames
    for frame in frames:
        scope = frame.scope
        if scope.dirty or scope.mixed or scope.held or scope.comprehensions or frame.returned_at is not None:
            return None
        live = tuple([(key, versions.numbers[versions.identity(one)]) for key, one in scope.live.items()])
        if any(scope.stamps[key] != versions.versions[number] for key, number in live):
            return None
        module = None if frame.module is None else paths[frame.module]
        called = tuple(frame.called)
        found.append(HeldScope(scope.kind, scope.number, module, called, live, tuple(scope.several.items())))
    places = [next((at for at, one in enumerate(frames) if one.scope.live is live), -1) for live in versions.live]
    return None if -1 in places else (found, places)


def is_unwritten(versions: Any) -> bool:
    """Are all tensors that names hold unwritten since the names were bound to them?"""
    live = [*chain.from_iterable(map(dict.values, versions.live))]
    return not live or versions.counted.versions(live) == [*chain.from_iterable(map(dict.values, versions.stamps))]


def _between(journal: Any, state: StateBefore) -> list[Any]:
    # Events since the journal was last settled that do not come from the journal.
    between: list[Any] = journal.trace.events[journal.settled : state.events]
    return between


def _pattern(objects: Sequence[Any]) -> list[int]:
    # For each object, the place of its first occurrence.
    known = [*map(id, objects)]
    first = dict(zip(reversed(known), range(len(known) - 1, -1, -1), strict=True))
    return [*map(first.__getitem__, known)]
