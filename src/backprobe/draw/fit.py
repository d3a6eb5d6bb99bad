"""Chooses the depth to which a drawing is opened, so that it fits a page and stays readable."""

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

# with at most this number of values, repeated modules are not rolled up, and every value may be drawn
FEW = 60
MORE = 1.5  # pages that a drawing may take if no drawing of one page shows enough
ENOUGH = 8  # a drawing with at least this number of nodes shows enough, even if repetitions are rolled up
CROWDED = 120  # a drawing with more nodes than this never fits a page
MOST = 2500  # the largest number of nodes, and of edges, because dot needs minutes for more
DIRECTIONS = {"right": "LR", "down": "TB"}
# limits for a drawing from left to right: the number of nodes, and the number of characters in each line
ROW, NARROW = 14, 32
SIZE = re.compile(r'<svg[^>]*? width="([\d.]+)pt" height="([\d.]+)pt"')


@dataclass(frozen=True)
class Drawn:
    """A circuit after layout, with its direction and its SVG."""

    circuit: Circuit
    direction: str
    svg: str

    @property
    def pages(self) -> float:
        """Its width or height in pages, whichever is larger."""
        found = SIZE.search(self.svg)
        assert found is not None, "Graphviz writes the size of its SVG in points"
        return max(float(own) / most for own, most in zip(found.groups(), PAGE, strict=True))


def drawn(captions: Captions, view: View, direction: str | None) -> Drawn:
    """Lay out the drawing of these captions. Without a given depth, boxes are opened as far as a page allows.

    Raises BadOption if there are too many nodes or edges.
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
    # Return the most detailed draft that fits a page. Repetitions are rolled up only if too little would be visible
    # otherwise: first the iterations of loops, then, if there are many values, repeated modules too. If no draft that
    # fits shows enough, a draft of somewhat more than a page is accepted. If there is none, a record of few values is
    # drawn in full. For a record of many values, the draft with the most nodes that fits is used, or else the one with
    # the fewest nodes. Boxes that the user wants open are opened at the end, so they may need more room.
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
    # Yield drafts of each view at each depth, the most detailed first. A draft with as many nodes as the previous one
    # is skipped.
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
    # a drawing from left to right that is larger than a page is drawn downwards instead
    if direction is None and way == DIRECTIONS["right"] and found.pages > 1:
        return _laid_out(draft, "down")
    return found


def _direction(circuit: Circuit) -> str:
    narrow = all(len(line) <= NARROW for node in circuit.nodes for line in node.lines)
    return "LR" if len(circuit.nodes) <= ROW and narrow and not any(node.rows for node in circuit.nodes) else "TB"
