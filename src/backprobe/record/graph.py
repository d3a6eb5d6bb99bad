"""The index of a record: which value flows into which, in both directions, and the boxes around them.

Entries are referred to by their position in the record. An edge leads from a value to one computed from it.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

from backprobe.errors import BadRecording
from backprobe.record.entries import INDEX, GradStatus, Record
from backprobe.record.inputs import Edge
from backprobe.record.names import split, strip
from backprobe.record.nested_scopes import Box, box_of_each, boxes_of, is_return, returned_by
from backprobe.record.own_reads import given_to_modules, own_reads
from backprobe.record.source import expression_of

TAKING = ("gradient", "jacobian", "batch_jacobian", "grad", "vjp")
NO_DERIVATIVE = (
    GradStatus.NOT_TENSOR,
    GradStatus.NOT_FLOAT,
    GradStatus.FROZEN,
    GradStatus.DETACHED,
    GradStatus.NO_GRAD,
    GradStatus.OPAQUE,
)

NUMBER = re.compile(r"(?<!\w)\d+(?!\w)|(?<=_)\d+(?=[:#.])")
"""A number in a name: a segment of its own, as in ``layers.3``, or the end of one, as in the ``dense_3`` of Keras."""
ENDING = re.compile(r"(?<=[A-Za-z_])\d+(?=#\d+$|$)")  # a number at the end of a variable's name

T = TypeVar("T")


def kept(record: Record, key: object, make: Callable[[], T]) -> T:
    """The result of ``make``, computed once and kept with the record as long as the record lives.

    The result must not refer to the record, since a reference cycle would keep both alive for too long. It may refer to
    a copy of the record that ``alone`` returns.
    """
    # a frozen dataclass forbids assignment, so this writes to its __dict__, as cached_property does
    found: dict[object, Any] = vars(record).setdefault(INDEX, {})
    if key not in found:
        found[key] = make()
    return cast(T, found[key])


def alone(record: Record) -> Record:
    """A copy of the record with its graph, but without other cached results."""
    graph, found = Graph.of(record), replace(record)
    kept(found, Graph, lambda: graph)
    return found


@dataclass(frozen=True)
class Flow:
    """One value that flows into another: both positions, and the edge; None if it carries no derivative."""

    source: int
    target: int
    edge: Edge | None


class Graph:
    """The index of one record. Each part is built when it is first read.

    ``Graph.of(record)`` returns the same index each time.
    """

    def __init__(self, record: Record) -> None:
        # not the record itself: the record keeps this index, and the reference cycle would delay freeing both
        self.entries = record.entries
        self._names, self._printed = record.names, record.printed
        self.read_beside: list[tuple[int, int]] = []
        """Pairs of entries besides ``flows``: a value that an expression reads, and the expression's result, if both
        have a history, but no edge connects them. Reading ``flows`` fills it.
        """

    @classmethod
    def of(cls, record: Record) -> Graph:
        """The index of a record, kept with it as long as it lives."""
        return kept(record, cls, lambda: cls(record))

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each entry, by its printed name."""
        return {entry.name: at for at, entry in enumerate(self.entries)}

    @cached_property
    def full_names(self) -> Sequence[str]:
        """The full name of each entry, with all counts; the printed name is its short form."""
        full = {self._printed[name]: name for name in reversed(list(self._names))}
        return [full.get(entry.name, entry.name) for entry in self.entries]

    @cached_property
    def parameters(self) -> frozenset[int]:
        """The parameters and buffers: the entries whose full names are paths without a local."""
        return frozenset(at for name, at in self._names.items() if split(name)[1] is None)

    @cached_property
    def scopes(self) -> Sequence[str]:
        """The scope of each entry, with all counts."""
        return [split(name)[0] for name in self.full_names]

    @cached_property
    def calls(self) -> Mapping[str, Sequence[str]]:
        """For each name without counts: all full names that are equal to it except for their counts."""
        found: dict[str, list[str]] = defaultdict(list)
        for full in self._names:
            found[strip(full)].append(full)
        return found

    @cached_property
    def numbered(self) -> Mapping[int, Sequence[int]]:
        """For each value: all values, including itself, whose names differ from its name in one number. For a return
        value this may be any number, as in ``layers.3``; for other values only the number at the end, as in ``x3``.
        Numbers of calls and bindings, such as ``#1``, do not count. Values without such a neighbour are left out.
        """
        alike: dict[str, list[int]] = defaultdict(list)
        for full, at in self._names.items():
            for number in NUMBER.finditer(full) if is_return(split(full)[1]) else ENDING.finditer(full):
                if not full[: number.start()].endswith("#"):
                    alike[f"{full[: number.start()]}*{full[number.end() :]}"].append(at)
        found: dict[int, list[int]] = {}
        for each in alike.values():
            for at in each if len(each) > 1 else ():
                found.setdefault(at, []).extend(each)
        return found

    @cached_property
    def results(self) -> frozenset[int]:
        """The return values of modules and called functions, even if they have other names too."""
        return frozenset(at for name, at in self._names.items() if is_return(split(name)[1]))

    @cached_property
    def unnamed_results(self) -> frozenset[int]:
        """The return values that have no other name."""
        return self.results - {at for name, at in self._names.items() if not is_return(split(name)[1])}

    # Properties and methods for edges.

    @cached_property
    def inputs(self) -> Sequence[Mapping[int, Edge]]:
        """The edges into each entry, by the entry that they come from. Raises BadRecording if that does not exist."""
        for entry in self.entries:
            for edge in entry.inputs:
                if not 0 <= edge.at < len(self.entries):
                    raise _damaged(f"{edge.name!r} flows into {entry.name!r}, and no entry has that name")
        return [{edge.at: edge for edge in entry.inputs} for entry in self.entries]

    @cached_property
    def consumers(self) -> Sequence[Sequence[int]]:
        """For each entry: the entries that it flows into along edges."""
        return inverted(self.inputs)

    def sources(self, at: int) -> set[int]:
        """The entries that an entry was computed from: by edges, and the earlier ones that its expression mentions."""
        return {*self.inputs[at], *(read.at for read in self.entries[at].reads if read.at < at)}

    def is_given(self, at: int) -> bool:
        """Is the entry an argument, parameter or buffer, so that the program did not compute it?"""
        entry = self.entries[at]
        is_written = bool(expression_of(entry.source)) or at in self.unnamed_results
        return at in self.parameters or not (is_written or self.sources(at) or entry.indirect)

    def begins(self, at: int) -> bool:
        """Is the entry a leaf: an argument, parameter or buffer, or another value from which no gradient flows further
        back?
        """
        return bool(self.entries[at].is_leaf) or self.is_given(at)

    def descendants(self, *positions: int) -> set[int]:
        """Some entries, and all entries that they flow into along any number of edges."""
        return reached(positions, self.consumers.__getitem__)

    @cached_property
    def flows(self) -> Sequence[Flow]:
        """The inputs of each entry, and values that an expression reads or passes to a module without a derivative."""
        return list(self._flows())

    def _flows(self) -> Iterator[Flow]:
        into: list[Sequence[int]] = []

        def before(at: int) -> set[int]:
            return reached(into[at], into.__getitem__)

        for target, (entry, inputs) in enumerate(zip(self.entries, self.inputs, strict=True)):
            yield from (Flow(source, target, edge) for source, edge in inputs.items())
            into.append([*inputs, *(read.at for read in entry.reads if read.at < target)])
            cut = entry.status in NO_DERIVATIVE
            read = own_reads(target, self.entries, inputs, before) if entry.reads else set()
            for source in sorted(read - inputs.keys()):
                if cut or self.entries[source].status in NO_DERIVATIVE or self._is_taken_of(target, source):
                    yield Flow(source, target, None)
                else:
                    self.read_beside.append((source, target))
            for source, module in given_to_modules(entry, self.entries, inputs) if entry.reads else ():
                if source not in self.inputs[module] and self.entries[source].status in NO_DERIVATIVE:
                    yield Flow(source, module, None)

    def _is_taken_of(self, at: int, loss: int) -> bool:
        # Is the entry a gradient that the program took of a loss, with no flow from the loss into it?
        is_taken = self.entries[at].op in TAKING and bool(self.inputs[at])
        return is_taken and loss not in reached([at], lambda one: self.inputs[one])

    @cached_property
    def order(self) -> Sequence[int]:
        """All entries, each after the entries that flow into it, otherwise in recorded order. Raises BadRecording if
        values flow in a circle.
        """
        into: Counter[int] = Counter(flow.target for flow in self.flows)
        targets: dict[int, list[int]] = defaultdict(list)
        for flow in self.flows:
            targets[flow.source].append(flow.target)
        ready = [at for at in range(len(self.entries)) if not into[at]]
        order = []
        while ready:
            at = heapq.heappop(ready)
            order.append(at)
            for target in targets[at]:
                into[target] -= 1
                if not into[target]:
                    heapq.heappush(ready, target)
        if len(order) < len(self.entries):
            raise _damaged("values that flow into themselves, in a circle")
        return order

    # Properties and methods for boxes.

    @cached_property
    def boxes(self) -> Mapping[str, Box]:
        """The scopes of modules and called functions, by their full names."""
        return boxes_of(self._names)

    @cached_property
    def box_of(self) -> Sequence[str | None]:
        """For each entry: the box in which it was computed; None if outside of all boxes."""
        return box_of_each(self._names, self.boxes, len(self.entries))

    def boxes_around(self, at: int) -> Iterator[str]:
        """The boxes around a value, the innermost first."""
        box = self.box_of[at]
        while box is not None:
            yield box
            box = self.boxes[box].around

    @cached_property
    def returned(self) -> Mapping[str, Sequence[int]]:
        """For each box: the entries that the box returns."""
        return returned_by(self._names, self.boxes)


def reached(start: Iterable[Any], onward: Callable[[Any], Iterable[Any]]) -> set[Any]:
    """The start positions (or other items) and everything that ``onward`` leads to from them.

    >>> sorted(reached([1], {1: [2], 2: [3], 3: [1], 4: [1]}.__getitem__))
    [1, 2, 3]
    """
    found = set(start)
    pending = list(found)
    while pending:
        new = set(onward(pending.pop())) - found
        found |= new
        pending += new
    return found


def inverted(sources: Sequence[Iterable[int]]) -> list[list[int]]:
    """For each position, the positions that have it as a source, in ascending order.

    >>> inverted([[], [0], [0, 1]])
    [[1, 2], [2], []]
    """
    targets: list[list[int]] = [[] for _ in sources]
    for target, own in enumerate(sources):
        for source in own:
            targets[source].append(target)
    return targets


def _damaged(found: str) -> BadRecording:
    return BadRecording(
        "the recording is not the graph of a computation",
        found=found,
        why="a value can flow only into values that are computed after it",
        next="record and save it again",
    )
