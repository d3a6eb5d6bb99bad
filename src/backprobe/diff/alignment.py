"""Aligns the entries of two recordings: by name, by a rename, by path, or by shape and place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from backprobe.diff.beside import GivenLeaves, in_pairs
from backprobe.diff.matches import BY_NAME, BY_PLACE, Match
from backprobe.diff.modules import module_path
from backprobe.diff.partners import Partners
from backprobe.diff.rename import Rename, renamed
from backprobe.diff.returns import Returned, call_of
from backprobe.diff.side import Side
from backprobe.diff.versions import NameVersions, counts
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import partition, split, strip


@dataclass(frozen=True)
class Alignment:
    """The matches in the order of the first recording, and the entries without a partner."""

    matches: Sequence[Match]
    only_a: Sequence[int]
    only_b: Sequence[int]

    def without(self, dropped: Set[Match]) -> Alignment:
        """Return the same alignment without some matches.

        Entries whose only match is dropped become entries without a partner.
        """
        left = [match for match in self.matches if match not in dropped]
        alone = {match.a for match in dropped} - {match.a for match in left}
        others = {match.b for match in dropped} - {match.b for match in left}
        return Alignment(left, sorted({*self.only_a, *alone}), sorted({*self.only_b, *others}))


def align(a: Side, b: Side, renames: Sequence[Rename]) -> Alignment:
    """Find partners for the entries. An entry without a partner, or with several possible ones, stays unmatched."""
    one = _Aligning(a, b, renames)
    one.by_name()
    one.by_path()
    one.by_place()
    return one.alignment()


class _Aligning:
    # The matches found so far: ``found`` by positions in the first recording, ``taken`` by positions in the second.
    def __init__(self, a: Side, b: Side, renames: Sequence[Rename]) -> None:
        self.a, self.b = a, b
        self.found: dict[int, Match] = {}
        self.taken: dict[int, int] = {}
        self.shared: dict[tuple[int, int], str] = {}
        self.parts: list[Match] = []
        targets = renamed(a.graph.calls, set(b.graph.calls), renames)
        self.names = {
            full: (to, " and ".join(map(str, used)))
            for full in a.record.names
            for to, used in [targets.get(strip(full), ("", ()))]
            if used
        }
        self.versions = NameVersions(a, b)
        self.returned = Returned(a), Returned(b)
        self.leaves = GivenLeaves(a), GivenLeaves(b)

    def _add(self, at: int, other: int, how: str) -> None:
        if at not in self.found and other not in self.taken:
            self.found[at], self.taken[other] = Match(at, other, how), at
        elif self.taken.get(other) != at:
            self.shared.setdefault((at, other), how)

    def by_name(self) -> None:
        # Match entries with the same name. A rename takes precedence over an equal name.
        for full in sorted(self.a.record.names, key=lambda full: full not in self.names):
            to, how = self.names.get(full, (strip(full), BY_NAME))
            other = self._named(full, to, is_renamed=full in self.names)
            if other is not None:
                self._add(self.a.record.names[full], other, how)
        self._rebound()

    def _named(self, full: str, to: str, *, is_renamed: bool) -> int | None:
        # Return the entry of ``b`` with this name and the same counts. If there is none, but a renamed name occurs
        # equally often in both programs, return the one at the same place. Return None if there is no such entry, if
        # the two belong to return values with other parts, or if they are unlike (``NameVersions.is_unlike``).
        #
        # If one program has the name more often, the entries must also have equal shapes and be no output. A module
        # that is called more often, such as once for each micro-batch, has values of other shapes, and each occurrence
        # of an output has its own loss. If the name is bound more often within a call, only the first bindings of
        # arguments and parameters are matched here; ``_rebound`` handles the others.
        own, others = self.a.graph.calls[strip(full)], self.b.graph.calls.get(to, [])
        same = [other for other in others if counts(other) == counts(full)]
        if not same and len(own) == len(others) and is_renamed:
            same = [others[own.index(full)]]
        if not same:
            return None
        at, found = self.a.record.names[full], self.b.record.names[same[0]]
        if not self._is_same_part(full, same[0]):
            return None
        if len(own) == len(others):
            return None if self.versions.is_unlike(full, same[0], self.found) else found
        is_alike = self.a.entries[at].shape == self.b.entries[found].shape and at not in self.a.record.outputs
        if self.versions.is_rebound(full, same[0]):
            is_alike = is_alike and own.index(full) == 0 and self.a.graph.is_given(at) and self.b.graph.is_given(found)
        return found if is_alike else None

    def _is_same_part(self, full: str, other: str) -> bool:
        # Do both names belong to return values with the same parts? Also True if one of them belongs to no return
        # value.
        calls = call_of(full), call_of(other)
        if calls[0] is None or calls[1] is None:
            return True
        return self.returned[0].parts(calls[0]) == self.returned[1].parts(calls[1])

    def _rebound(self) -> None:
        # Match the bindings of names that are bound several times, unless they have a partner already.
        each = list(self.versions.rebound(lambda full: self.names[full][0] if full in self.names else strip(full)))
        for find in (self.versions.by_sources, self.versions.lasts, self.versions.by_sources):
            for one in each:
                for at, other, how in list(find(one, self.found, self.taken)):
                    self._add(at, other, how)

    def by_path(self) -> None:
        # Match the parameters of partner modules, and then the values that these modules compute.
        partners = Partners(self.a, self.b, self.found.values(), self.leaves)
        for match in partners.matches:
            if match.a in self.found or match.b in self.taken:
                self.parts.append(match)
            else:
                self.found[match.a], self.taken[match.b] = match, match.a
        for full, at in self.a.record.names.items():
            other, how = self._by_module(full, partners)
            if other is not None and at not in self.found and other not in self.taken:
                self._add(at, other, how)
        self._only_ones(partners)

    def _by_module(self, full: str, partners: Partners) -> tuple[int | None, str]:
        # The entry with this name in the partner module, and how the module's partner was found. None for a parameter,
        # if the partner has the same name, if no entry has the name, or if one of the two entries has no value.
        scope, local = split(full)
        other, how = self._scope(strip(scope), partners)
        if local is None or other == strip(scope):
            return None, ""
        found = self._named(full, strip(f"{other}:{local}"), is_renamed=True)
        own = self.a.entries[self.a.record.names[full]]
        is_unlike = found is None or own.has_no_value or self.b.entries[found].has_no_value
        return (None, "") if is_unlike else (found, how)

    @staticmethod
    def _scope(scope: str, partners: Partners) -> tuple[str, str]:
        # The scope in the second recording, without counts, that corresponds to a scope of the first.
        path = module_path(scope)
        other, how = partners.of.get(path, (path, BY_NAME))
        return "/".join([".".join(other), *partition(scope, "/")[1:]]), how

    def _only_ones(self, partners: Partners) -> None:
        # Match tensors that are the only ones their calls return, although the containers differ: for example if only
        # one attention layer also returns its weights.
        for call in self.returned[0].calls:
            scope, how = self._scope(call[0], partners)
            calls = call, (scope, call[1])
            pair = [side.only(one) for side, one in zip(self.returned, calls, strict=True)]
            parts = [side.parts(one) for side, one in zip(self.returned, calls, strict=True)]
            often = [side.often[one[0]] for side, one in zip(self.returned, calls, strict=True)]
            if None not in pair and parts[0] != parts[1] and often[0] == often[1]:
                at, other = pair
                if at is not None and other is not None and at not in self.found and other not in self.taken:
                    self._add(at, other, how)

    def by_place(self) -> None:
        # Match entries of equal shape that are computed in the same way from values that are already matched. An entry
        # with several possible partners stays unmatched. Arguments and parameters come first: those of one shape are
        # matched in order or by their numbers, if both recordings have equally many of this shape.
        for places in self._leaf_groups():
            for at, other, how in places:
                self._add(at, other, how)
        a, b, waiting = self.a, self.b, defaultdict(list)
        for other in range(len(b.entries)):
            if other not in self.taken and not b.graph.is_given(other):
                waiting[kind(b.entries[other])].append(other)
        for at, entry in enumerate(a.entries):
            if at in self.found or a.graph.is_given(at) or not waiting[kind(entry)]:
                continue
            partners = self.versions.partners(at, self.found)
            fits = [one for one in waiting[kind(entry)] if one not in self.taken and b.graph.sources(one) == partners]
            if partners and len(fits) == 1:
                self._add(at, fits[0], BY_PLACE)

    def _leaf_groups(self) -> Iterable[Iterable[tuple[int, int, str]]]:
        # Return arguments and parameters without a partner, in pairs and grouped by shape, if the shape occurs equally
        # often in both recordings. Each pair says how it was found. Arguments and parameters are not paired with each
        # other.
        groups: dict[object, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        more: tuple[set[int], set[int]] = {one.a for one in self.parts}, {one.b for one in self.parts}
        matched: tuple[Mapping[int, object], Mapping[int, object]] = self.found, self.taken
        for number, side in enumerate((self.a, self.b)):
            for at, entry in enumerate(side.entries):
                is_free = at not in matched[number] and at not in more[number]
                if is_free and side.graph.is_given(at) and entry.shape is not None:
                    groups[at in side.graph.parameters, entry.shape][number].append(at)
        each = [both for both in groups.values() if len(both[0]) == len(both[1])]
        return [in_pairs(*both, self.leaves, (int, int), BY_PLACE) for both in each]

    def alignment(self) -> Alignment:
        # Return all matches, in the order of the first recording.
        also = [
            Match(*pair, how, True)
            for pair, how in self.shared.items()
            if pair[0] not in self.found or pair[1] not in self.taken
        ]
        matches = sorted([*self.found.values(), *self.parts, *also], key=lambda match: (match.a, match.b))
        only_a, only_b = (
            sorted(set(range(len(side.entries))) - self._with_added(number, matches))
            for number, side in enumerate((self.a, self.b))
        )
        return Alignment(matches, only_a, only_b)

    @staticmethod
    def _with_added(number: int, matches: Sequence[Match]) -> set[int]:
        # The entries of one recording that have a partner, alone or as a part of a sum.
        added = {at for match in matches for at in match.readings[number].added}
        return added | {(match.a, match.b)[number] for match in matches}


def kind(entry: Entry) -> tuple[object, ...]:
    """The properties that entries must share to be matched by shape and place."""
    return entry.shape, entry.op, entry.status is GradStatus.NOT_TENSOR
