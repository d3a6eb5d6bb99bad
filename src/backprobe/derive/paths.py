"""The ways along which one value of a recording reaches another, counted before any is listed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from backprobe.errors import BadRecording
from backprobe.record import Edge, Entry

Inputs = Mapping[int, Mapping[int, Edge]]
"""By the position of an entry: the edges into it, by the positions that they come from."""


@dataclass(frozen=True)
class Ways:
    """What lies between two values: every entry on a way, the output first and each before its inputs."""

    start: int
    end: int
    order: tuple[int, ...]
    inputs: Inputs  # of these entries, and along these ways only
    counts: Mapping[int, int]  # how many ways lead from the start to each

    @property
    def count(self) -> int:
        return self.counts.get(self.end, 0)

    def consumers(self, at: int) -> list[int]:
        """What an entry flows into, the output first."""
        return [consumer for consumer in self.order if at in self.inputs.get(consumer, ())]

    def listed(self) -> list[tuple[int, ...]]:
        """Every way from the start to the end: to be called only where their count is small."""
        found: list[tuple[int, ...]] = []
        pending: list[tuple[int, ...]] = [(self.start,)]
        while pending:
            way = pending.pop()
            if way[-1] == self.end:
                found.append(way)
            else:
                pending += [way + (source,) for source in reversed(list(self.inputs[way[-1]]))]  # noqa: RUF005
        return found


def inputs_of(entries: Sequence[Entry]) -> Inputs:
    """The edges of a record by position. Raises BadRecording where they lead nowhere or in a circle."""
    positions = {entry.name: at for at, entry in enumerate(entries)}
    inputs: dict[int, dict[int, Edge]] = {}
    for at, entry in enumerate(entries):
        unknown = [edge.name for edge in entry.inputs if edge.name not in positions]
        if unknown:
            raise _damaged(f"{unknown[0]!r} flows into {entry.name!r}, and no entry has that name")
        inputs[at] = {positions[edge.name]: edge for edge in entry.inputs}
    if len(_ordered(range(len(entries)), inputs)) < len(entries):
        raise _damaged("values that flow into themselves, in a circle")
    return inputs


def ways(inputs: Inputs, start: int, end: int, usable: Callable[[int, int], bool]) -> Ways:
    """Every way from one value back to another along usable edges, given by the positions of consumer and source."""
    forth = {at: [source for source in inputs[at] if usable(at, source)] for at in inputs}
    back: dict[int, list[int]] = defaultdict(list)
    for at, sources in forth.items():
        for source in sources:
            back[source].append(at)
    between = _reached(start, forth) & _reached(end, back)
    own = {at: {source: inputs[at][source] for source in forth[at] if source in between} for at in between}
    order = tuple(_ordered(between, own))
    counts = Counter({start: 1})
    for at in order:
        for source in own[at]:
            counts[source] += counts[at]
    return Ways(start, end, order, own, dict(counts))


def _reached(start: int, onward: Mapping[int, Iterable[int]]) -> set[int]:
    found, pending = {start}, [start]
    while pending:
        new = [at for at in onward.get(pending.pop(), ()) if at not in found]
        found.update(new)
        pending += new
    return found


def _ordered(among: Iterable[int], inputs: Inputs) -> list[int]:
    """Each entry before its inputs; what lies on a circle, or behind one, is left out (Kahn's algorithm)."""
    waiting = Counter(dict.fromkeys(among, 0))
    for at in waiting:
        waiting.update(inputs[at].keys())
    ready = sorted(at for at, consumers in waiting.items() if not consumers)
    order = []
    while ready:
        at = ready.pop()
        order.append(at)
        for source in inputs[at]:
            waiting[source] -= 1
            if not waiting[source]:
                ready.append(source)
    return order


def _damaged(found: str) -> BadRecording:
    return BadRecording(
        "the recording is no graph of a computation", found=found,
        why="a value can flow only into values that are computed after it", next="record and save it again",
    )  # fmt: skip
