"""What one call of a model was, so that an equal call is known without being read.

A course is learned from a journal that was read. Another journal fits where the words in it, the types of all that it
holds, what is the same object as what, and which tensors require gradients are as they were; all this is compared in
C. Then reading it would give the same events, and the captures of the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any

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
)

MOST = 4
SEQUENCES, MAPPING = (tuple, list), dict
READ_ALIKE = frozenset({CALLED, ENTER, LEAVE, MENTIONED, MODULE})
"""The words of a log that say nothing of what may differ in another call with an equal journal."""

Getter = Callable[[Sequence[Any]], tuple[Any, ...]]


def courses_of(plan: Any) -> list[Course]:
    """The courses that a selection knows, the last used first."""
    return plan.courses


def _getter(places: Sequence[int]) -> Getter:
    # The items at these places, as a tuple.
    if len(places) > 1:
        return itemgetter(*places)
    return (lambda items: tuple([items[at] for at in places])) if places else (lambda items: ())


class _Spread:
    # All that a journal holds, with what is in the containers among it, in one list.
    def __init__(self, sequences: Sequence[int], mappings: Sequence[int], others: Sequence[int]) -> None:
        self.sequences, self.mappings, self.others = map(_getter, (sequences, mappings, others))

    def of(self, journal: Any) -> tuple[list[Any], list[Any]]:
        """The list, and how many there are of each, with the keys."""
        trace = journal.trace
        sequences, mappings = self.sequences(journal), self.mappings(journal)
        inside = [trace.codes._leaves(one) for one in self.others(journal)]
        items = [
            *journal,
            *trace.versions.tensors[: journal.base.captures],
            *journal.modules,
            *chain.from_iterable(sequences),
            *chain.from_iterable(mappings),
            *chain.from_iterable(map(dict.values, mappings)),
            *[item for found in inside for _, item in found],
        ]
        counts: list[Any] = [*map(len, sequences), *map(len, mappings)]
        counts += [tuple([leaf for leaf, _ in found]) for found in inside]
        return items, counts


class Course:
    """The shape of one journal, and what it said."""

    spread: _Spread

    @classmethod
    def learn(cls, journal: Any) -> None:
        """Keep the course of a journal that was read, where an equal one would say the same."""
        plan = journal.trace.plan
        made = cls.of(journal)
        if made is not None:
            plan.courses = [made, *plan.courses[: MOST - 1]]

    @classmethod
    def of(cls, journal: Any) -> Course | None:
        trace, course = journal.trace, cls()
        if not _reads_alike(journal):
            return None
        words, values = _places(journal)
        sequences, mappings, others = [], [], []
        mixed = {at for at, code in journal.codes if isinstance(code, tuple) and any(one < 0 for _, one in code)}
        flat = trace.ordinary | SIMPLE | trace.bare
        for at in values:
            value = journal[at]
            kind = type(value)
            if kind in flat or at in journal.owners:
                continue
            if at in mixed:
                others.append(at)
            elif kind in SEQUENCES and flat.issuperset(map(type, value)):
                sequences.append(at)
            elif kind is MAPPING and {*map(type, value)} <= {str} and flat.issuperset(map(type, value.values())):
                mappings.append(at)
            else:
                others.append(at)
        course.spread = _Spread(sequences, mappings, others)
        items, course.counts = course.spread.of(journal)
        course.types = [*map(type, items)]
        texts = [at for at in range(len(journal), len(items)) if course.types[at] is str]
        course.get_words = _getter([*words, *texts])
        course.words = course.get_words(items)
        kept, base = trace.ordinary, journal.base
        inside = [trace.codes._leaves(journal[at]) for at in others]
        first_inside = len(items) - sum(map(len, inside))
        objects = [
            at
            for at in range(len(items))
            if course.types[at] in kept or at in journal.owners or at >= first_inside or (len(journal) <= at < len(journal) + base.captures + len(journal.modules))
        ]
        course.get_objects = _getter(objects)
        course.pattern = _pattern(course.get_objects(items))
        course.get_tensors = _getter([at for at in objects if course.types[at] in kept])
        course.natures = journal.tape.natures(course.get_tensors(items))
        first: dict[int, int] = {}
        for at in objects:
            first.setdefault(id(items[at]), at)
        captured = trace.versions.tensors[base.captures :]
        if any(id(one) not in first for one in captured):
            return None
        course.base = base
        course.get_captured = _getter([first[id(one)] for one in captured])
        starts = dict(zip(others, accumulate(map(len, inside), initial=first_inside), strict=False))
        plain = []
        for at, code in journal.codes:
            if code == PLAIN:
                plain.append(at)
            elif isinstance(code, tuple) and any(one < 0 for _, one in code):
                names = [leaf for leaf, _ in inside[others.index(at)]]
                for leaf, one in code:
                    if one < 0:
                        if leaf not in names:
                            return None
                        plain.append(starts[at] + names.index(leaf))
        said = trace.plain[base.plain :]
        if None in plain or len(plain) != len(said) or any(items[at] is not one for at, one in zip(plain, said, strict=True)):
            return None
        course.get_plain = _getter(plain)
        course.events = trace.events[base.events :]
        course.scopes = trace.scopes
        course.executed = {*journal.executed}
        returned = None if journal.last is None else journal.last.returned
        course.returned = next((at for at in reversed(values) if journal[at] is returned), None)
        return course

    def fits(self, journal: Any) -> bool:
        """Would reading this journal say what reading that one did?"""
        if journal.base != self.base or len(journal) > len(self.types):
            return False
        items, counts = [], []
        try:
            items, counts = self.spread.of(journal)
        except (IndexError, TypeError, AttributeError):
            return False
        if counts != self.counts or [*map(type, items)] != self.types or self.get_words(items) != self.words:
            return False
        if _pattern(self.get_objects(items)) != self.pattern:
            return False
        if journal.tape.natures(self.get_tensors(items)) != self.natures:
            return False
        journal.items = items
        return True

    def follow(self, journal: Any) -> Any:
        """Let the trace be as if this journal had been read; what the outermost scope returned."""
        trace = journal.trace
        trace.versions.add_all(trace.writes, self.get_captured(journal.items))
        trace.events += self.events
        trace.plain += self.get_plain(journal.items)
        trace.scopes = self.scopes
        journal.executed |= self.executed
        kind = journal[1]
        if not kind.path:
            trace.root_is(kind)
        journal.items.clear()
        return None if self.returned is None else journal[self.returned]


def _reads_alike(journal: Any) -> bool:
    trace, base = journal.trace, journal.base
    said = trace.events[base.events :]
    if any(0 > word not in READ_ALIKE for word in said[1::3]) or trace.codes.holders or trace.codes.mixed:
        return False
    if trace.writes is None or trace.log.transcripts or trace.has_more:
        return False
    for _, code in journal.codes:
        if code in (PASSED_OVER, DIFFERENTIATED):
            return False
    return True


def _places(journal: Any) -> tuple[list[int], list[int]]:
    # Where the words of a journal are, and where what was bound, entered or called.
    words, values, at = [], [], 0
    journal.owners = owners = set()
    while at < len(journal):
        word = journal[at]
        words.append(at)
        at += 1
        if 0 <= word < DONE or word == MENTIONED:
            values.append(at)
            at += 1
        elif word == CALLED:
            words.append(at)
            at += 1
        elif word == ENTER:
            words.append(at)
            values.append(at + 1)
            owners.add(at + 1)
            at += 2
        elif word < -100 and word != -101:
            values.append(at)
            owners.add(at)
            at += 1
    return words, values


def _pattern(objects: Sequence[Any]) -> list[int]:
    # Of each object the place at which it comes first.
    known = [*map(id, objects)]
    first = dict(zip(reversed(known), range(len(known) - 1, -1, -1), strict=True))
    return [*map(first.__getitem__, known)]
