"""A recording as a graph: which value flows into which, and the boxes of modules and functions around them.

Positions are those of the record's entries. An edge leads from a value to one that is computed from it. Boxes are the
scopes of names: a called function lies in its caller, a module in the nearest module around its path that has a name.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from backprobe.errors import BadRecording
from backprobe.record.entries import Edge, Entry, GradStatus, Record
from backprobe.record.names import partition, split, strip

NO_DERIVATIVE = (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT, GradStatus.FROZEN, GradStatus.DETACHED,
                 GradStatus.NO_GRAD, GradStatus.OPAQUE)  # fmt: skip


@dataclass(frozen=True)
class Flow:
    """One value flowing into another: their positions, and the edge, or None where it carries no derivative."""

    source: int
    target: int
    edge: Edge | None


@dataclass(frozen=True)
class Box:
    """The scope of a module or called function: its full name, the box around it, and how deep it lies (from 1)."""

    full: str
    label: str
    around: str | None
    level: int


@dataclass(frozen=True)
class Graph:
    """The entries of a record with the flows between them, and the box in which each was computed (None: outside)."""

    entries: tuple[Entry, ...]
    flows: tuple[Flow, ...]
    order: tuple[int, ...]  # each entry after those that it is computed from
    boxes: Mapping[str, Box]
    box_of: tuple[str | None, ...]
    parameters: frozenset[int]
    returned: Mapping[str, tuple[int, ...]]  # by box: the entries that it returns

    @classmethod
    def of(cls, record: Record) -> Graph:
        """The graph of a record. Raises BadRecording where its edges lead nowhere or in a circle."""
        flows = tuple(_flows(record.entries))
        order = tuple(_in_order(len(record.entries), flows))
        boxes = _boxes(record.names)
        parameters = frozenset(at for name, at in record.names.items() if split(name)[1] is None)
        inside, returned = _box_of(record, boxes), _returned(record.names, boxes)
        return cls(record.entries, flows, order, boxes, inside, parameters, returned)


def _flows(entries: Sequence[Entry]) -> Iterator[Flow]:
    """What flows into each entry: its inputs, and what its expression reads without a derivative."""
    positions = {entry.name: at for at, entry in enumerate(entries)}
    for target, entry in enumerate(entries):
        direct = {}
        for edge in entry.inputs:
            if edge.name not in positions:
                raise _damaged(f"{edge.name!r} flows into {entry.name!r}, and no entry has that name")
            direct[positions[edge.name]] = edge
        yield from (Flow(source, target, edge) for source, edge in direct.items())
        read = {positions[read.name] for read in entry.reads if read.name in positions} - direct.keys() - {target}
        cut = entry.status in NO_DERIVATIVE
        yield from (Flow(at, target, None) for at in sorted(read) if cut or entries[at].status in NO_DERIVATIVE)


def _in_order(size: int, flows: Sequence[Flow]) -> list[int]:
    """The positions, each after those that it is computed from, and else in their own order. Raises BadRecording."""
    into: Counter[int] = Counter(flow.target for flow in flows)
    targets: dict[int, list[int]] = defaultdict(list)
    for flow in flows:
        targets[flow.source].append(flow.target)
    ready = [at for at in range(size) if not into[at]]
    order = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for target in targets[at]:
            into[target] -= 1
            if not into[target]:
                heapq.heappush(ready, target)
    if len(order) < size:
        raise _damaged("values that flow into themselves, in a circle")
    return order


def _damaged(found: str) -> BadRecording:
    return BadRecording(
        "the recording is no graph of a computation", found=found,
        why="a value can flow only into values that are computed after it", next="record and save it again",
    )  # fmt: skip


# boxes


def _boxes(names: Mapping[str, int]) -> dict[str, Box]:
    """Every scope that a name lies in, and every caller of one."""
    scopes: dict[str, None] = {}
    for name in names:
        scope, local = split(name)
        if local is not None:
            parts = partition(scope, "/")
            for length in range(1, len(parts) + 1):
                scopes["/".join(parts[:length])] = None
    scopes.pop("", None)
    modules = _modules(scopes)
    entered = Counter(map(strip, scopes))
    boxes: dict[str, Box] = {}
    for scope in sorted(scopes, key=lambda scope: (len(partition(scope, "/")), len(partition(scope, ".")))):
        around = _around(scope, modules)
        level = boxes[around].level + 1 if around is not None else 1
        own = scope if entered[strip(scope)] > 1 else strip(scope)
        boxes[scope] = Box(scope, _label(own, around), around, level)
    return boxes


def _modules(scopes: Iterable[str]) -> dict[str, str]:
    """The scope of each module by its path; the first where a module was entered more than once."""
    return {strip(scope): scope for scope in reversed(list(scopes)) if not _is_called(scope)}


def _is_called(scope: str) -> bool:
    """Is it the scope of a called function, and not a module's?"""
    return len(partition(scope, "/")) > 1


def _around(scope: str, modules: Mapping[str, str]) -> str | None:
    """The box around a scope: the caller of a function, the nearest module above a module."""
    *caller, _ = partition(scope, "/")
    if caller:
        return "/".join(caller) or None
    return _enclosing_module(strip(scope), modules)


def _enclosing_module(path: str, modules: Mapping[str, str]) -> str | None:
    """The scope of the nearest module above a path."""
    segments = partition(path, ".")
    for length in range(len(segments) - 1, 0, -1):
        above = modules.get(".".join(segments[:length]))
        if above is not None:
            return above
    return None


def _label(own: str, around: str | None) -> str:
    """What a box is called within the one around it."""
    if around is None:
        return own.removeprefix("/")
    return partition(own, "/")[-1] if _is_called(own) else own.removeprefix(strip(around) + ".")


def _box_of(record: Record, boxes: Mapping[str, Box]) -> tuple[str | None, ...]:
    """The box of each entry: that of its first name, which it got where it was computed."""
    modules = _modules(boxes)
    found: dict[int, str | None] = {}
    for name, at in record.names.items():
        if at not in found:
            scope, local = split(name)
            found[at] = (scope or None) if local is not None else _enclosing_module(name, modules)
    return tuple(found.get(at) for at in range(len(record.entries)))


def _returned(names: Mapping[str, int], boxes: Mapping[str, Box]) -> dict[str, tuple[int, ...]]:
    found: dict[str, dict[int, None]] = {box: {} for box in boxes}
    for name, at in names.items():
        scope, local = split(name)
        if scope in found and local is not None and partition(strip(local), ".")[0] == "return":
            found[scope][at] = None
    return {box: tuple(positions) for box, positions in found.items()}
