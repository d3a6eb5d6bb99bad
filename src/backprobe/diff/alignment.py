"""The alignment of two recordings' entries: by name, by a rename, or by shape and place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from backprobe.diff.rename import Rename
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.graph import Graph
from backprobe.record.names import COUNT, outside, split, strip

BY_NAME, BY_PLACE = "by name", "by shape and place"


@dataclass(frozen=True)
class Match:
    """Two entries that belong together, by their positions, and how that was found.

    ``is_shared`` says that one of them has another partner: it has a name here that there is another value's. Their
    gradients are not compared, since that of one value is the sum over all its uses.
    """

    a: int
    b: int
    how: str
    is_shared: bool = False


@dataclass(frozen=True)
class Alignment:
    """The matches in the order of the first recording, and what has no partner."""

    matches: Sequence[Match]
    only_a: Sequence[int]
    only_b: Sequence[int]


class Side:
    """One recording, as matching sees it."""

    def __init__(self, record: Record) -> None:
        self.record, self.entries, self.graph = record, record.entries, Graph.of(record)
        self.counted: dict[str, list[str]] = defaultdict(list)
        for full in record.names:
            self.counted[strip(full)].append(full)

    def sources(self, at: int) -> set[int]:
        """What an entry was computed from: along its edges, and what its expression mentions."""
        reads = {read.at for read in self.entries[at].reads if read.at < at}
        return {*self.graph.inputs[at], *reads}

    @cached_property
    def returned(self) -> set[int]:
        """What has no other name than that of what a module or function returned."""
        bound = {at for full, at in self.record.names.items() if not _is_return(full)}
        return set(self.record.names.values()) - bound

    def is_parameter(self, at: int) -> bool:
        return at in self.graph.parameters

    def is_leaf(self, at: int) -> bool:
        """Is it an argument, a parameter or a buffer, and not computed by the program?"""
        source = self.entries[at].source
        is_given = (source is None or not source.expression) and at not in self.returned
        return self.is_parameter(at) or (is_given and not self.sources(at) and not self.entries[at].indirect)


def align(a: Side, b: Side, renames: Sequence[Rename]) -> Alignment:
    """The partners of all entries."""
    found: dict[int, Match] = {}
    taken: dict[int, int] = {}
    shared: dict[tuple[int, int], str] = {}
    renamed = {full: one for full in a.record.names for one in renames if one.of(strip(full)) is not None}
    for full in sorted(a.record.names, key=lambda full: full not in renamed):  # a rename comes before an equal name
        at, other = a.record.names[full], _named(full, a, b, renamed.get(full))
        how = str(renamed.get(full, BY_NAME))
        if other is not None and at not in found and other not in taken:
            found[at], taken[other] = Match(at, other, how), at
        elif other is not None and taken.get(other) != at:
            shared.setdefault((at, other), how)
    _by_place(a, b, found, taken)
    also = [Match(*pair, how, True) for pair, how in shared.items() if pair[0] not in found or pair[1] not in taken]
    matches = sorted([*found.values(), *also], key=lambda match: (match.a, match.b))
    without = [set(range(len(side.entries))) for side in (a, b)]
    return Alignment(
        matches,
        sorted(without[0] - {match.a for match in matches}), sorted(without[1] - {match.b for match in matches}),
    )  # fmt: skip


def _is_return(full: str) -> bool:
    local = split(full)[1]
    return local is not None and (local == "return" or local.startswith(("return#", "return.")))


def _named(full: str, a: Side, b: Side, rename: Rename | None) -> int | None:
    """The entry of ``b`` that has this name of ``a``, or the name that it is renamed to.

    A name that one program binds more often, to values of another shape, is that of parts of the other's value; and so
    is an output that one program has more often, as the loss of each micro-batch.
    """
    plain = strip(full)
    own, others = a.counted[plain], b.counted.get(plain if rename is None else rename.of(plain) or "", [])
    if rename is None:
        same = [full] if full in b.record.names else []
    else:
        same = [other for other in others if _counts(other) == _counts(full)]
    if rename is not None and not same and len(own) == len(others):
        same = [others[own.index(full)]]
    if not same:
        return None
    at, found = a.record.names[full], b.record.names[same[0]]
    is_other = a.entries[at].shape != b.entries[found].shape or at in a.record.outputs
    return None if len(own) != len(others) and is_other else found


def _counts(full: str) -> tuple[str, ...]:
    read = outside(full)
    return tuple(found[1] for found in COUNT.finditer(full) if read[found.start()])


def _by_place(a: Side, b: Side, found: dict[int, Match], taken: dict[int, int]) -> None:
    """Match entries of one shape that are computed in the same way from values that are matched already.

    Arguments and parameters are matched in their order, if there are as many of each shape. What several entries could
    belong to is left alone.
    """
    for places in _leaf_groups(a, b, found, taken):
        for at, other in places:
            found[at], taken[other] = Match(at, other, BY_PLACE), at
    waiting = defaultdict(list)
    for other in range(len(b.entries)):
        if other not in taken and not b.is_leaf(other):
            waiting[_kind(b.entries[other])].append(other)
    for at, entry in enumerate(a.entries):
        if at in found or a.is_leaf(at) or not waiting[_kind(entry)]:
            continue
        partners = {found[source].b if source in found else -1 for source in a.sources(at)}
        fits = [other for other in waiting[_kind(entry)] if other not in taken and b.sources(other) == partners]
        if partners and len(fits) == 1:
            found[at], taken[fits[0]] = Match(at, fits[0], BY_PLACE), at


def _leaf_groups(
    a: Side, b: Side, found: Mapping[int, Match], taken: Mapping[int, int]
) -> Iterable[Iterable[tuple[int, int]]]:
    """Arguments and parameters without a partner, of which both recordings have as many of one shape."""
    groups: dict[object, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for number, (side, matched) in enumerate(((a, found), (b, taken))):
        for at, entry in enumerate(side.entries):
            if at not in matched and side.is_leaf(at) and entry.shape is not None:
                groups[side.is_parameter(at), entry.shape][number].append(at)
    return [zip(*both, strict=True) for both in groups.values() if len(both[0]) == len(both[1])]


def _kind(entry: Entry) -> tuple[object, ...]:
    return entry.shape, entry.op, entry.status is GradStatus.NOT_TENSOR
