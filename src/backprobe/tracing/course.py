"""The course of a call: what was said in it, so that the same is known next time without being read.

A journal (``journal``) is heard in segments. A segment is learned where it was read; a later one fits where the words
in it, the types of all that it holds, what is the same object as what, and which tensors have a history are as they
were, and what was said before it as well. All this is compared in C. Then reading it would give the same events, and
captures of the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, NamedTuple

from backprobe.record.containers import SIMPLE
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

FAILED, OF_MODULE = -101, -102
"""Words of a journal beside those of the log: a scope is left by an error; the module that is called comes next."""

MOST, MOST_IN_ALL = 4, 256
"""The segments that are known to come after another, and those of one selection."""

MOST_MISSED = 16
"""A program of which so many more segments were read than were known is not the same each time."""

SEQUENCES = (tuple, list)
READ_ALIKE = frozenset({CALLED, ENTER, LEAVE, MENTIONED, MODULE})
"""The words of a log that say nothing which an equal journal would not say."""

Getter = Callable[[Sequence[Any]], tuple[Any, ...]]

compare: Callable[[Segment, Segment | None], None] | None = None
"""For tests: called with a segment that would be followed, and with what is learned of the same journal, read now."""


class StateBefore(NamedTuple):
    """What a trace had when a segment began."""

    captures: int
    events: int
    plain: int
    scopes: int
    mode: bool
    open: tuple[tuple[int, int, bool], ...]
    """The scopes that ran: of each its number, how many modules it had called, and whether it is to be looked after."""


class HeldScope(NamedTuple):
    """A scope that runs when a segment ends, by numbers."""

    kind: ScopeKind
    number: int
    module: str | None
    called: tuple[str, ...]
    live: tuple[tuple[Any, int], ...]
    several: tuple[tuple[str, int], ...]


def before(journal: Any) -> StateBefore:
    """What the trace of a journal has, before the journal is heard."""
    trace = journal.trace
    frames = [(one.scope.number, len(one.called), one.scope.dirty) for one in journal.reading.frames]
    counts = len(trace.versions.captures), len(trace.events), len(trace.plain), trace.scopes
    return StateBefore(*counts, journal.mode, tuple(frames))


class Courses:
    """The segments that one selection knows, and whether programs that it was used for are the same each time."""

    def __init__(self) -> None:
        self.following: list[Segment] = []  # the first ones, as ``Segment.following``
        self.known = self.followed = self.missed = 0
        self.takes_all: bool | None = None  # is each tensor captured?
        self.is_repeated = False  # did the program say what one said before, when it ran last?
        self.has_unseen_writes = False  # has something that is not followed written to captured tensors?

    @property
    def are_useful(self) -> bool:
        """May a journal be followed?"""
        return self.is_repeated and not self.has_unseen_writes and self.missed <= MOST_MISSED + self.followed // 2

    def takes_all_of(self, events: Sequence[Any]) -> bool:
        """Does a log say of all tensors that were bound which they are? A journal holds none that nobody asked for."""
        if self.takes_all is None:
            self.takes_all = all(
                code not in (PASSED_OVER, DIFFERENTIATED) for code in events[2::3] if type(code) is int
            )
        return self.takes_all

    def find(self, journal: Any, now: StateBefore) -> tuple[Segment, list[Any]] | None:
        """The segment that says what reading this journal would say, if one is known, and all that it holds."""
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
        """Know a segment next time. Returns the one that is known already, where that has said the same."""
        after: Courses | Segment = journal.previous or self
        for known in after.following:
            if not differences(known, made):
                return known
        if self.known < MOST_IN_ALL:
            after.following = [made, *after.following[: MOST - 1]]
            self.known += 1
        return made


def _getter(places: Sequence[int]) -> Getter:
    # The items at these places, as a tuple.
    if len(places) > 1:
        return itemgetter(*places)
    return lambda items: tuple([items[at] for at in places])


@dataclass(eq=False)
class Spread:
    """All that a journal holds, and what is in the containers among it, in one list."""

    sequences: Sequence[int]
    mappings: Sequence[int]
    others: Sequence[int]
    """Containers of all other kinds, and those in which numbers have codes."""

    def __post_init__(self) -> None:
        self.getters = _getter(self.sequences), _getter(self.mappings), _getter(self.others)

    def of(self, journal: Any, captures: int) -> tuple[list[Any], list[Any]]:
        """The list, and how many are in each container, or under which names."""
        trace = journal.trace
        sequences, mappings, others = [get(journal) for get in self.getters]
        inside = [trace.codes.found_in(one) for one in others]
        items = [
            *journal,
            *trace.versions.tensors[:captures],
            *journal.modules,
            *chain.from_iterable(sequences),
            *chain.from_iterable(mappings),
            *chain.from_iterable(map(dict.values, mappings)),
            *[item for found in inside for _, item in found],
        ]
        counts: list[Any] = [*map(len, sequences), *map(len, mappings)]
        return items, [*counts, *[tuple([leaf for leaf, _ in found]) for found in inside]]


class Segment:
    """What a journal said between two places at which it was settled."""

    def __init__(self, journal: Any, state: StateBefore, spread: Spread, values: _Values) -> None:
        self.before, self.spread = state, spread
        self.between = _between(journal, state)
        self.following: list[Segment] = []
        trace, kept = journal.trace, journal.trace.ordinary
        items, self.counts = spread.of(journal, state.captures)
        kinds = [*map(type, items)]
        self.types = [*map(id, kinds)]  # not themselves: a class may know its model
        known = len(journal) + state.captures + len(journal.modules)  # before what is in containers
        sizes = [len(trace.codes.found_in(journal[at])) for at in spread.others]
        first_inside = len(items) - sum(sizes)
        self.get_words = _getter([*values.words, *(at for at in range(known, len(items)) if kinds[at] is str)])
        self.words = self.get_words(items)
        objects = [
            at
            for at, kind in enumerate(kinds)
            if kind in kept or at in values.owners or len(journal) <= at < known or at >= first_inside
        ]
        self.get_objects = _getter(objects)
        self.pattern = _pattern(self.get_objects(items))
        self.get_tensors = _getter([at for at in objects if kinds[at] in kept])
        self.natures = journal.tape.natures(self.get_tensors(items))
        self.items, self.first = items, {id(items[at]): at for at in reversed(objects)}
        self.starts = dict(zip(spread.others, accumulate(sizes, initial=first_inside), strict=False))

    @classmethod
    def of(cls, journal: Any, state: StateBefore) -> Segment | None:
        """The segment that was read now; None where an equal journal might say something else."""
        if not _reads_alike(journal, state):
            return None
        values = _Values.of(journal)
        spread = _spread(journal, values)
        made = cls(journal, state, spread, values)
        return made if made._learn(journal) else None

    def _learn(self, journal: Any) -> bool:
        # What reading it has added to the trace: where in the journal the tensors and numbers are.
        trace, state, items = journal.trace, self.before, self.items
        held, said = _held(journal), trace.plain[state.plain :]
        tensors = trace.versions.tensors
        made = [*map(id, tensors[state.captures :])]  # what was written since has been captured before
        found = [*map(self.first.get, made)]
        self.captured = [at for at in found if at is not None]
        self.plain = [at for at in _plain(journal, self.starts) if at is not None]
        del self.items
        are_new = len({*made}) == len(made) and {*made}.isdisjoint(map(id, tensors[: state.captures]))
        are_all_there = are_new and len(self.captured) == len(made) and len(self.plain) == len(said)
        if (
            held is None
            or not are_all_there
            or any(items[at] is not one for at, one in zip(self.plain, said, strict=True))
        ):
            return False
        self.get_captured, self.get_plain = _getter(self.captured), _getter(self.plain)
        self.events, self.scopes = trace.events[state.events :], trace.scopes
        self.executed = {said[0].path for word, said in _turns(self.events) if word == MODULE}
        self.held, self.live = held
        last = journal.reading.last
        self.last: tuple[ScopeKind, int, int | None] | None = None
        if not self.held and last is not None:
            self.last = last.scope.kind, self.first[id(last.module)], last.returned_at
        del self.first, self.starts
        return True

    def fits(self, journal: Any, now: StateBefore) -> list[Any] | None:
        """All that a journal holds, where reading it would say what reading that one did."""
        is_alike = now == self.before and not any(is_dirty for _, _, is_dirty in now.open)
        if not (is_alike and _between(journal, now) == self.between and _is_unwritten(journal.trace.versions)):
            return None
        try:
            items, counts = self.spread.of(journal, now.captures)
        except (IndexError, TypeError, AttributeError):  # another kind of thing is where a container was
            return None
        is_same = (
            counts == self.counts
            and [*map(id, map(type, items))] == self.types
            and self.get_words(items) == self.words
            and _pattern(self.get_objects(items)) == self.pattern
            and journal.tape.natures(self.get_tensors(items)) == self.natures
        )
        return items if is_same else None

    def follow(self, journal: Any, items: Sequence[Any]) -> None:
        """Let the trace be as if this journal had been read; ``items`` are all that it holds."""
        trace, reading = journal.trace, journal.reading
        is_new = trace.versions.add_all(trace.writes, self.get_captured(items))
        assert is_new, "a tensor that was captured again"
        trace.events += self.events
        trace.plain += self.get_plain(items)
        trace.scopes = self.scopes
        reading.executed |= self.executed
        reading.restore(self.held, self.live, journal.by_path if self.held else {})
        if self.last is not None:
            kind, module, returned = self.last
            reading.leave_last(kind, items[module], None if returned is None else items[returned])


def differences(known: Segment, made: Segment | None) -> list[str]:
    """Where a segment that fits a journal and what its reading says differ: nowhere, or it does not fit."""
    if made is None:
        return ["an equal journal may say something else"]
    fields = ("before", "between", "events", "captured", "plain", "scopes", "executed", "held", "live", "last")
    return [
        f"{name}: {getattr(known, name)!r} != {getattr(made, name)!r}"
        for name in fields
        if getattr(known, name) != getattr(made, name)
    ]


class _Values(NamedTuple):
    # The places of a journal: of its words, of what was bound or mentioned, and of modules.
    words: list[int]
    bound: list[int]
    owners: set[int]

    @classmethod
    def of(cls, journal: Sequence[Any]) -> _Values:
        found, at = cls([], [], set()), 0
        while at < len(journal):
            word = journal[at]
            found.words.append(at)
            at += 1
            if 0 <= word < DONE or word == MENTIONED:
                found.bound.append(at)
                at += 1
            elif word == CALLED:
                found.words.append(at)
                at += 1
            elif word == ENTER:
                found.words.append(at)
                found.owners.add(at + 1)
                at += 2
            elif word == OF_MODULE:
                found.owners.add(at)
                at += 1
        return found


def _spread(journal: Any, values: _Values) -> Spread:
    flat = journal.trace.ordinary | SIMPLE | journal.trace.bare
    mixed = {at for at, code in journal.reading.codes if _has_numbers(code)}
    sequences, mappings, others = [], [], []
    for at in values.bound:
        value = journal[at]
        kind = type(value)
        if at in mixed:
            others.append(at)
        elif kind in SEQUENCES and flat.issuperset(map(type, value)):
            sequences.append(at)
        elif kind is dict and {*map(type, value)} <= {str} and flat.issuperset(map(type, value.values())):
            mappings.append(at)
        elif kind not in flat:
            others.append(at)
    return Spread(sequences, mappings, others)


def _has_numbers(code: Any) -> bool:
    # Does a container hold numbers that have codes?
    return isinstance(code, tuple) and any(one < 0 for _, one in code)


def _reads_alike(journal: Any, state: StateBefore) -> bool:
    # Does the journal alone decide what its reading has said?
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


def _plain(journal: Any, starts: dict[int, int]) -> Iterator[int | None]:
    # Where the numbers are that have codes, in the order of these.
    trace = journal.trace
    for at, code in journal.reading.codes:
        if code == PLAIN:
            yield at
        elif _has_numbers(code):
            names = [leaf for leaf, _ in trace.codes.found_in(journal[at])] if at in starts else []
            for leaf, one in code:
                if one < 0:
                    yield starts[at] + names.index(leaf) if leaf in names else None


def _held(journal: Any) -> tuple[list[HeldScope], list[int]] | None:
    # The scopes that run, and the order in which their names have begun to hold tensors. None where more is held.
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
        called = tuple([paths[one] for one in frame.called])
        found.append(HeldScope(scope.kind, scope.number, module, called, live, tuple(scope.several.items())))
    places = [next((at for at, one in enumerate(frames) if one.scope.live is live), -1) for live in versions.live]
    return None if -1 in places else (found, places)


def _is_unwritten(versions: Any) -> bool:
    # Are all tensors that names hold as they were when they got them?
    live = [*chain.from_iterable(map(dict.values, versions.live))]
    return not live or versions.counted.versions(live) == [*chain.from_iterable(map(dict.values, versions.stamps))]


def _between(journal: Any, state: StateBefore) -> list[Any]:
    # What was said since the journal was settled last, and not by it.
    between: list[Any] = journal.trace.events[journal.settled : state.events]
    return between


def _pattern(objects: Sequence[Any]) -> list[int]:
    # Of each object the place at which it comes first.
    known = [*map(id, objects)]
    first = dict(zip(reversed(known), range(len(known) - 1, -1, -1), strict=True))
    return [*map(first.__getitem__, known)]
