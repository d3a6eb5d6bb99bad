"""The paths from one value of a recording back to another, counted before any is listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from backprobe.record.graph import Graph, inverted, reached
from backprobe.record.inputs import Edge


@dataclass(frozen=True)
class Paths:
    """All that lies between two values: every entry on a path, the output first and each before its inputs."""

    start: int
    end: int
    order: tuple[int, ...]
    inputs: Mapping[int, Mapping[int, Edge]]  # of these entries, along these paths only
    counts: Mapping[int, int]  # how many paths lead from the start to each

    @property
    def count(self) -> int:
        return self.counts.get(self.end, 0)

    def leads(self, start: int, end: int) -> bool:
        """Does any path lead from one of these entries back to another?"""
        return end in reached([start], self.inputs.__getitem__)

    def listed(self) -> list[tuple[int, ...]]:
        """Every path from the start to the end; for small counts only."""
        found: list[tuple[int, ...]] = []
        pending: list[tuple[int, ...]] = [(self.start,)]
        while pending:
            path = pending.pop()
            if path[-1] == self.end:
                found.append(path)
            else:
                pending += [path + (source,) for source in reversed(list(self.inputs[path[-1]]))]  # noqa: RUF005
        return found


def paths(graph: Graph, start: int, end: int, usable: Callable[[int, int], bool]) -> Paths:
    """Every path from one value back to another along edges that ``usable(consumer, source)`` accepts."""
    forth = [[source for source in inputs if usable(at, source)] for at, inputs in enumerate(graph.inputs)]
    between = reached([start], forth.__getitem__) & reached([end], inverted(forth).__getitem__)
    own = {at: {source: graph.inputs[at][source] for source in forth[at] if source in between} for at in between}
    order = tuple(at for at in reversed(graph.order) if at in between)
    counts = Counter({start: 1})
    for at in order:
        for source in own[at]:
            counts[source] += counts[at]
    return Paths(start, end, order, own, dict(counts))
