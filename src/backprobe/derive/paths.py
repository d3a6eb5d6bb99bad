"""The paths from one value of a recording back to another. They are counted first, and listed only if there are few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from backprobe.record.graph import Graph, inverted, reached
from backprobe.record.inputs import Edge


@dataclass(frozen=True)
class Paths:
    """All entries on the paths between two values, ordered from the output to the inputs."""

    start: int
    end: int
    order: tuple[int, ...]
    # for each of these entries, by its position: the edges into it that lie on the paths, by the position of their
    # source
    inputs: Mapping[int, Mapping[int, Edge]]
    counts: Mapping[int, int]  # for each entry, the number of paths from the start to it

    @property
    def count(self) -> int:
        return self.counts.get(self.end, 0)

    def leads(self, start: int, end: int) -> bool:
        """Does a path lead from the entry ``start`` back to the entry ``end``?"""
        return end in reached([start], self.inputs.__getitem__)

    def listed(self) -> list[tuple[int, ...]]:
        """Return every path from the start to the end. Only for small numbers of paths."""
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
    """The paths from one value back to another along edges that ``usable(consumer, source)`` accepts."""
    forth = [[source for source in inputs if usable(at, source)] for at, inputs in enumerate(graph.inputs)]
    between = reached([start], forth.__getitem__) & reached([end], inverted(forth).__getitem__)
    own = {at: {source: graph.inputs[at][source] for source in forth[at] if source in between} for at in between}
    order = tuple(at for at in reversed(graph.order) if at in between)
    counts = Counter({start: 1})
    for at in order:
        for source in own[at]:
            counts[source] += counts[at]
    return Paths(start, end, order, own, dict(counts))
