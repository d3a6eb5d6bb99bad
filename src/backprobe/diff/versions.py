"""Matches the bindings of names that one program binds more often than the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from backprobe.diff.matches import BY_LAST, BY_SOURCES, Match
from backprobe.diff.side import Side
from backprobe.record.graph import reached
from backprobe.record.names import COUNT, outside, split, strip

Group = tuple[str, str]
Taken = Mapping[int, object]


@dataclass(frozen=True)
class ReboundName:
    """All bindings of one name in one call of its scope, in both programs: positions in execution order."""

    own: Sequence[int]
    others: Sequence[int]


class Bindings:
    """The bindings of each name in a recording, by the call of its scope and the name without its count."""

    def __init__(self, side: Side) -> None:
        self.names = side.record.names
        self.groups: dict[Group, list[str]] = defaultdict(list)
        self.of_plain: dict[str, list[Group]] = defaultdict(list)
        for full in side.record.names:
            group = group_of(full)
            if group not in self.groups:
                self.of_plain[strip(full)].append(group)
            self.groups[group].append(full)

    def positions(self, group: Group) -> list[int]:
        return [self.names[full] for full in self.groups[group]]


def group_of(full: str) -> Group:
    """Return the call of the scope that binds a name, and the name without its count.

    >>> group_of("f#1:u#0"), group_of("q.weight")
    (('f#1', ':u'), ('', 'q.weight'))
    """
    scope, local = split(full)
    return ("", strip(full)) if local is None else (scope, ":" + strip(local))


def counts(name: str) -> tuple[str, ...]:
    """The counts in a name, in order."""
    read = outside(name)
    return tuple(found[1] for found in COUNT.finditer(name) if read[found.start()])


class NameVersions:
    """Matches the bindings of names if two programs bind a name a different number of times.

    Two bindings correspond if the same operation computes them from corresponding values. Of the remaining ones, the
    last bindings correspond, since the rest of the program uses these. Values without inputs, such as zeros that are
    filled later, do not count as last bindings.
    """

    def __init__(self, a: Side, b: Side) -> None:
        self.a, self.b = a, b
        self.bound = Bindings(a), Bindings(b)

    def is_rebound(self, full: str, other: str) -> bool:
        """Does one program bind this name more often within the same call of its scope?"""
        own, others = self.bound[0].groups[group_of(full)], self.bound[1].groups[group_of(other)]
        return len(own) != len(others)

    def is_unlike(self, full: str, other: str, found: Mapping[int, Match]) -> bool:
        """Do two bindings of a name that is bound several times differ both in their operation and in their inputs?

        Also True if only one of them is an argument or parameter. Always False for two frameworks, because they may
        name one operation differently.
        """
        at, place = self.bound[0].names[full], self.bound[1].names[other]
        is_one = len(self.bound[0].groups[group_of(full)]) < 2
        if is_one or self.a.record.framework != self.b.record.framework:
            return False
        if self.a.graph.is_given(at) or self.b.graph.is_given(place):
            return not (self.a.graph.is_given(at) and self.b.graph.is_given(place))
        is_other = self.a.entries[at].op != self.b.entries[place].op
        return is_other and self.b.graph.sources(place) != self.partners(at, found)

    def partners(self, at: int, found: Mapping[int, Match]) -> set[int]:
        """The partners of the inputs of an entry in the first recording; -1 for an input without a partner."""
        return {found[source].b if source in found else -1 for source in self.a.graph.sources(at)}

    def rebound(self, to: Callable[[str], str]) -> Iterator[ReboundName]:
        """Yield all names bound several times. ``to`` maps a full name to the second program's name without counts."""
        for group, own in self.bound[0].groups.items():
            for other in self.bound[1].of_plain.get(to(own[0]), ()):
                is_same_call = counts(other[0]) == counts(group[0])
                if is_same_call and max(len(own), len(self.bound[1].groups[other])) > 1:
                    yield ReboundName(self.bound[0].positions(group), self.bound[1].positions(other))

    def by_sources(self, each: ReboundName, found: Mapping[int, Match], taken: Taken) -> Iterator[tuple[int, int, str]]:
        """Yield bindings that the same operation computes from corresponding values, in order."""
        least = 0
        for at in each.own:
            if at in found or not self.a.graph.sources(at):
                continue
            partners = self.partners(at, found)
            for number, other in enumerate(each.others[least:], least):
                if other not in taken and self.is_like(at, other) and self.b.graph.sources(other) == partners:
                    least = number + 1
                    yield at, other, BY_SOURCES
                    break

    def is_like(self, at: int, other: int) -> bool:
        """Do both entries come from the same operation, with results of the same shape?"""
        a, b = self.a.entries[at], self.b.entries[other]
        return (a.op, a.shape, a.status) == (b.op, b.shape, b.status)

    def lasts(self, each: ReboundName, found: Taken, taken: Taken) -> Iterator[tuple[int, int, str]]:
        """Yield the last bindings of both programs, if they are results of the same shape."""
        at, other = each.own[-1], each.others[-1]
        outputs = self.a.record.outputs, self.b.record.outputs
        is_part = len(outputs[0]) != len(outputs[1]) and (at in outputs[0] or other in outputs[1])
        if at in found or other in taken or is_part or self.a.entries[at].shape != self.b.entries[other].shape:
            return
        if self._is_result(self.a, at) and self._is_result(self.b, other):
            yield at, other, BY_LAST

    @staticmethod
    def _is_result(side: Side, at: int) -> bool:
        # Is the entry computed, along edges, from differentiated arguments or parameters?
        return bool(side.graph.inputs[at]) and any(
            side.graph.is_given(one) for one in reached([at], lambda one: side.graph.inputs[one])
        )
