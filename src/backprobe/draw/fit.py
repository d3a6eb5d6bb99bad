"""The depth to which a drawing is opened by default: as far as it fits a page and can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from backprobe.draw.circuit import Circuit, View
from backprobe.draw.draft import Draft
from backprobe.draw.layout import PAGE, svg
from backprobe.errors import BadOption
from backprobe.record.graph import Graph
from backprobe.show.captions import Captions

FEW = 60  # values whose modules alike are not drawn as one, and that are all drawn where else too little is seen
MORE = 1.5  # pages that are taken rather than to show less than enough
ENOUGH = 8  # nodes from which a drawing shows something, and what repeats need not be rolled up
CROWDED = 120  # nodes that can fit a page at all
MOST = 2500  # nodes that are drawn at all: dot needs minutes beyond
DIRECTIONS = {"right": "LR", "down": "TB"}
ROW, NARROW = 14, 32  # nodes, and characters of a line, up to which a drawing goes from left to right
SIZE = re.compile(r'<svg[^>]*? width="([\d.]+)pt" height="([\d.]+)pt"')


@dataclass(frozen=True)
class Drawn:
    """A circuit that is laid out: its direction, and its SVG."""

    circuit: Circuit
    direction: str
    svg: str

    @property
    def pages(self) -> float:
        """How many pages it is wide or high, whichever is more."""
        found = SIZE.search(self.svg)
        assert found is not None, "Graphviz writes the size of its SVG in points"
        return max(float(own) / most for own, most in zip(found.groups(), PAGE, strict=True))


def drawn(captions: Captions, view: View, direction: str | None) -> Drawn:
    """What is captioned, laid out as it was asked for; where the depth was not, opened as far as fits a page.

    Raises BadOption where there is too much to lay out.
    """
    draft = Draft(captions, view) if view.depth is not None else _chosen(captions, view, direction)
    nodes, edges = _nodes(draft), len(draft.grouping.flows)
    if max(nodes, edges) > MOST:
        raise BadOption(
            f"{nodes:,} nodes and {edges:,} edges are too many to draw",
            asked=f"depth={view.depth}, roll={view.roll}",
            found=f"{len(captions.record.entries):,} values",
            why=f"laying out more than {MOST:,} takes minutes",
            next=f"bp.draw({captions.spelled}, depth=1), roll=True, or a probe of fewer values: "
            "bp.probe(f, ['loss', 'h.*'])",
        )
    return _laid_out(draft, direction)


def _chosen(captions: Captions, view: View, direction: str | None) -> Draft:
    # The most detailed draft that fits a page; loops are rolled up only where else too little would be seen: first
    # their turns alone, and of many values modules alike as well.
    #
    # Where none fits that shows enough, somewhat more than a page; else few values are all shown, and of many what
    # shows most, or has the fewest nodes. Boxes that were asked to be open are opened then: they may need more room.
    closed = replace(view, opened=frozenset())
    are_few = len(Draft(captions, closed).grouping.drawn) <= FEW
    rolled = [closed, replace(closed, turns=True), replace(closed, roll=True)][: 2 if are_few else 3]
    drafts = list(_drafts(captions, [closed] if view.roll else rolled))
    sized = [draft for draft in drafts if _nodes(draft) <= CROWDED]

    def is_whole(draft: Draft) -> bool:
        return draft is drafts[0] or (draft.view.turns and draft.view.depth is None)

    @cache
    def pages(at: int) -> float:
        return _laid_out(sized[at], direction).pages

    for room, at in product((1, MORE), range(len(sized))):
        if (is_whole(sized[at]) or _nodes(sized[at]) >= ENOUGH) and pages(at) <= room:
            chosen = sized[at]
            break
    else:
        fitting = [draft for at, draft in enumerate(sized) if pages(at) <= 1]
        chosen = drafts[0] if are_few else max(fitting, key=_nodes) if fitting else min(drafts, key=_nodes)
    is_asked = chosen.view == closed
    return Draft(captions, replace(chosen.view, opened=view.opened, collapsed=not is_asked))


def _nodes(draft: Draft) -> int:
    return len(draft.grouping.members)


def _drafts(captions: Captions, views: Iterable[View]) -> Iterator[Draft]:
    # A draft of each view at each depth, the most detailed first; none that shows the same as the one before.
    levels = max((box.level for box in Graph.of(captions.record).boxes.values()), default=0)
    for view in views:
        if view.turns and not Draft(captions, view).grouping.rolls:
            continue
        nodes = None
        for depth in (None, *range(levels, 0, -1)):
            draft = Draft(captions, replace(view, depth=depth))
            if _nodes(draft) != nodes:
                nodes = _nodes(draft)
                yield draft


def _laid_out(draft: Draft, direction: str | None) -> Drawn:
    circuit = draft.circuit()
    way = DIRECTIONS[direction] if direction else _direction(circuit)
    found = Drawn(circuit, way, svg(circuit, way))
    if direction is None and way == DIRECTIONS["right"] and found.pages > 1:  # a page is higher than it is wide
        return _laid_out(draft, "down")
    return found


def _direction(circuit: Circuit) -> str:
    narrow = all(len(line) <= NARROW for node in circuit.nodes for line in node.lines)
    return "LR" if len(circuit.nodes) <= ROW and narrow and not any(node.rows for node in circuit.nodes) else "TB"
