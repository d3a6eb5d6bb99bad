"""The ways along which one value of a recording reaches another, counted before any is listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from backprobe.record.graph import Graph, inverted, reached
from backprobe.record.inputs import Edge


@dataclass(frozen=True)
class Ways:
    """What lies between two values: every entry on a way, the output first and each before its inputs."""

    start: int
    end: int
    order: tuple[int, ...]
    inputs: Mapping[int, Mapping[int, Edge]]  # of these entries, and along these ways only
    counts: Mapping[int, int]  # how many ways lead from the start to each

    @property
    def count(self) -> int:
        return self.counts.get(self.end, 0)

    def leads(self, start: int, end: int) -> bool:
        """Does any way lead from one of these entries back to another?"""
        return end in reached([start], self.inputs.__getitem__)

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


def ways(graph: Graph, start: int, end: int, usable: Callable[[int, int], bool]) -> Ways:
    """Every way from one value back to another along usable edges, given by the positions of consumer and source."""
    forth = [[source for source in inputs if usable(at, source)] for at, inputs in enumerate(graph.inputs)]
    between = reached([start], forth.__getitem__) & reached([end], inverted(forth).__getitem__)
    own = {at: {source: graph.inputs[at][source] for source in forth[at] if source in between} for at in between}
    order = tuple(at for at in reversed(graph.order) if at in between)
    counts = Counter({start: 1})
    for at in order:
        for source in own[at]:
            counts[source] += counts[at]
    return Ways(start, end, order, own, dict(counts))
