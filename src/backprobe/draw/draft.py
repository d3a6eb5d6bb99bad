"""Prepares a record for drawing: the text of each node, edge and box, and of the lines below the drawing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from backprobe.draw.circuit import MOST_LINES, Arrow, Circuit, CircuitRow, Cluster, Node, View
from backprobe.draw.grouping import LOOP, Grouping
from backprobe.findings.phrasing import listed, plural
from backprobe.record.brief import path
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.graph import Flow
from backprobe.record.names import strip
from backprobe.record.source import expression_of
from backprobe.show.captions import DASHED, Captions

MOST_ROWS = 6  # rows of one kind in a node


class Draft:
    """Prepares a record for drawing: decides which values share a node, then writes all texts."""

    def __init__(self, captions: Captions, view: View) -> None:
        self.captions, self.record, self.view = captions, captions.record, view
        self.entries = self.record.entries
        self.grouping = Grouping(self.record, view)
        self.graph = self.grouping.graph

    def circuit(self) -> Circuit:
        """The circuit to draw."""
        arrows = [self._arrow(source, target, own) for (source, target), own in self.grouping.flows.items()]
        nodes = [self._node(key, positions) for key, positions in self.grouping.members.items()]
        clusters = self._clusters(nodes)
        nodes, arrows = _apart(nodes, arrows, self.view.apart)
        return Circuit(tuple(nodes), tuple(arrows), tuple(clusters), (*self._footer(), *self._legend(nodes, arrows)))

    def _node(self, key: str, positions: Sequence[int]) -> Node:
        if key.startswith(LOOP):
            node = self._loop_node(key, positions)
        elif key in self.graph.boxes:
            node = self._box_node(key, positions)
        else:
            node = self._value_node(key, positions[0])
        rows = (*node.rows, *self._parameters(key), *self._borrowed(key))
        names = [self.entries[row.at].name for row in rows]
        return replace(node, rows=rows, tooltip="; ".join(filter(None, (node.tooltip, listed(names, MOST_ROWS)))))

    def _value_node(self, key: str, at: int, name: str = "") -> Node:
        entry = self.entries[at]
        expression = expression_of(entry.source)
        name = name or self.captions.title(at)
        node = Node(key, self._cluster(self.graph.box_of[at]), name, self.captions.role(at), _tooltip(entry))
        shown = self._showing(node, at)
        return shown if shown.lines[:1] == (f"= {expression}",) else replace(shown, expression=expression)

    def _showing(self, node: Node, at: int) -> Node:
        # The node with the value and gradient of an entry.
        captions = self.captions
        lines = tuple(captions.lines(at, node.title))
        return replace(node, lines=lines, grad=captions.kind(at), level=captions.level(at))

    def _box_node(self, box: str, positions: Sequence[int]) -> Node:
        # The single node of a collapsed module or function: its return values, and how many values and parameters it
        # hides.
        own, bare, values = self.graph.boxes[box], box in self.grouping.bare, self._values(box, positions)
        parameters = [at for at in positions if self._is_parameter(at)]
        if bare and len(values) == 1:
            node, given = self._value_node(box, values[0], own.label), self.captions.title(values[0])
            kind = "output" if node.kind == "output" else "module"
            aside = given if given != "return" else ""
            node = replace(node, cluster=self._cluster(own.around), aside=aside, kind=kind)
        else:
            inside = len(positions) - len(parameters)
            counts = [plural(inside, "value")] * (inside > 1) + [plural(len(parameters), "parameter")] * bool(
                parameters
            )
            aside, kind = ("", "module") if bare else (", ".join(counts), "box")
            node = Node(box, self._cluster(own.around), own.label, kind, strip(box), aside)
            node = self._like_worst(self._returning(node, values), positions)
        rows = _first_of([self._row([at]) for at in parameters], "parameter") if bare else []
        return replace(node, rows=(*node.rows, *rows))

    def _returning(self, node: Node, outs: Sequence[int]) -> Node:
        # The node with the return values of a box: a single value in full, several values as rows.
        if not outs:
            return node
        shown = self._showing(node, min(outs, key=lambda at: self.entries[at].status is not GradStatus.OK))
        if len(outs) == 1:
            return shown
        return replace(shown, lines=(), rows=tuple(_first_of([self._row([at]) for at in outs], "value")))

    def _like_worst(self, node: Node, positions: Sequence[int]) -> Node:
        # The node in the style of its worst hidden value, with a line that names this value.
        worst, captions = self.captions.worst(positions), self.captions
        if worst is None or (captions.kind(worst), captions.level(worst)) == (node.grad, node.level):
            return node
        lines = (*node.lines, captions.alarm(positions))
        return replace(node, lines=lines, grad=captions.kind(worst), level=captions.level(worst))

    def _loop_node(self, key: str, positions: Sequence[int]) -> Node:
        # The node of a loop or of repeated modules, which shows the first and the last iteration.
        turns: dict[str, list[int]] = defaultdict(list)
        for at in positions:
            turns[self.grouping.node_of_box[self.graph.box_of[at]] or str(at)].append(at)
        own = list(turns.items())
        first, last = self._node(*own[0]), self._node(*own[-1])
        node = replace(
            last,
            key=key,
            cluster=first.cluster,
            kind="loop",
            expression=first.expression,
            aside=f"{len(own)} times" + (f", each {first.aside}" if first.kind == "box" and first.aside else ""),
            title=f"{first.title} … {last.title}" if first.title != last.title else first.title,
            tooltip=f"{first.tooltip} … {last.tooltip}",
            rows=tuple(self._ends(own[0], own[-1])),
            lines=(),
        )
        return self._like_worst(node, positions)

    def _ends(self, *turns: tuple[str, Sequence[int]]) -> Iterator[CircuitRow]:
        # Yield the rows of the first and the last iteration of a loop. If an iteration has several values, each value
        # has one row for both iterations.
        values = [self._values(*turn) for turn in turns]
        if {len(own) for own in values} == {1}:
            for name, (at,) in zip(("first", "last"), values, strict=True):
                yield replace(self._row([at]), title=name)
            values = [[], []]
        if turns[0][0] in self.grouping.bare:
            values = [[*own, *filter(self._is_parameter, turn[1])] for own, turn in zip(values, turns, strict=True)]
        first, last = ({self.captions.title(at): at for at in own} for own in values)
        pairs = [[at, last.get(title, at)] for title, at in first.items()]
        yield from _first_of([self._row(pair) for pair in pairs], "value")

    def _values(self, key: str, positions: Sequence[int]) -> list[int]:
        # The values that a node shows: the value itself, or the return values of its box.
        if key not in self.graph.boxes:
            return [positions[0]]
        if key in self.grouping.bare:
            return [at for at in positions if not self._is_parameter(at)]
        return [at for at in self.graph.returned[key] if self._is_tensor(at)]

    def _is_tensor(self, at: int) -> bool:
        return self.entries[at].status is not GradStatus.NOT_TENSOR

    def _is_parameter(self, at: int) -> bool:
        return at in self.graph.parameters

    def _parameters(self, key: str) -> list[CircuitRow]:
        # Return rows of the parameters in a node or box; repeated modules share a row.
        alike: dict[str, list[int]] = defaultdict(list)
        for at in self.grouping.rows.get(key, ()):
            alike[self.grouping.rolls.get(str(at), str(at))].append(at)
        return _first_of([self._row(positions) for positions in alike.values()], "parameter")

    def _row(self, positions: Sequence[int]) -> CircuitRow:
        # The row of one value, or of the first and last of several similar values.
        first, last, captions = positions[0], positions[-1], self.captions
        value, gradient = (_range(say(first), say(last)) for say in (captions.brief_value, captions.brief_gradient))
        kind, level = captions.kind(last), captions.level(last)
        if len(positions) == 1:
            gradient += self._local(positions[0])
        return CircuitRow(self.captions.title(positions[-1]), value, gradient, positions[-1], kind, level)

    def _local(self, at: int) -> str:
        # The local partial of a parameter that is used once, because the drawing has no edge for it.
        onward = self.grouping.from_parameter.get(at, ())
        said = self.captions.local(onward[0], upstream=self.view.contributions) if len(onward) == 1 else ""
        return f", local {said}" if said else ""

    def _borrowed(self, key: str) -> list[CircuitRow]:
        # Return rows of the parameters of other modules that a node uses.
        rows = []
        for flow in self.grouping.borrowed.get(key, ()):
            entry, said = self.entries[flow.source], self.captions.arrow(flow, upstream=self.view.contributions)
            rows.append(CircuitRow(entry.name, "", said, flow.source, "ok", self.captions.width(flow)))
        return _first_of(rows, "parameter")

    def _cluster(self, box: str | None) -> str | None:
        return None if box is None else self.grouping.cluster(box)

    def _clusters(self, nodes: Sequence[Node]) -> list[Cluster]:
        # The boxes that contain a node, and the boxes around these, the outermost first.
        found: dict[str, Cluster] = {}

        def add(key: str | None) -> None:
            if key is not None and key not in found:
                own = [box for box in self.graph.boxes.values() if self._cluster(box.full) == key]
                names = dict.fromkeys((own[0].label, own[-1].label))
                label = " … ".join(names) + (f", {len(own)} times" if len(own) > 1 else "")
                around = self._cluster(own[0].around)
                add(around)
                found[key] = Cluster(key, label, around, tuple(self._parameters(key)))

        for node in nodes:
            add(node.cluster)
        return list(found.values())

    def _arrow(self, source: str, target: str, flows: Sequence[Flow]) -> Arrow:
        carrying = [flow for flow in flows if flow.edge is not None]
        sizes = [level for level in map(self.captions.width, carrying) if level is not None]
        label = self.captions.arrow(flows[0], upstream=self.view.contributions) if len(flows) == 1 else ""
        pairs = [f"{self.entries[f.source].name} → {self.entries[f.target].name}" for f in flows]
        is_finite = not any(map(self.captions.is_broken, carrying))
        size = max(sizes, default=None)
        return Arrow(
            source,
            target,
            label,
            bool(carrying),
            size,
            is_finite,
            listed(pairs, MOST_LINES),
            is_main=(source, target) in self.grouping.main,
            is_back=self.grouping.goes_back(source, target),
            count=len(flows),
            is_reached=any(self.entries[flow.target].status is GradStatus.OK for flow in flows),
        )

    # Methods for the lines below the drawing.

    def _footer(self) -> Iterator[str]:
        yield self.captions.heading
        yield from self.captions.about()
        if self.view.collapsed:
            yield from self._more()
        hidden = self.grouping.hidden
        if hidden:
            yield f"not drawn, because nothing leads to or from it: {listed([each.name for each in hidden], 3)}"
        yield from (f"note: {note}" for note in self.record.notes[:3])
        if len(self.record.notes) > 3:
            yield f"and {len(self.record.notes) - 3} more notes: rec.notes"

    def _more(self) -> Iterator[str]:
        # Yield lines on what was simplified to fit a page, and how to see more.
        view, levels = self.view, max((box.level for box in self.graph.boxes.values()), default=0)
        chosen = [f"depth={view.depth}"] * bool(view.depth) + ["roll=True"] * view.roll
        chosen += ["the turns of a loop and the items of a list as one"] * (view.turns and not view.roll)
        yield f"{len(self.entries):,} values do not fit a page: drawn with {', '.join(chosen)}"
        draw, box = f"bp.draw({self.captions.spelled}", self.grouping.largest_closed
        more = f"for {'more' if view.depth else 'each of them'}: {draw}, depth={(view.depth or levels) + 1})"
        yield more + (f", or {draw}, open={strip(box).removeprefix('/')!r}) for one box" if box else "")

    def _legend(self, nodes: Sequence[Node], arrows: Sequence[Arrow]) -> Iterator[str]:
        # Yield the lines of the legend that apply to this drawing.
        levels = {node.level for node in nodes} | {row.level for node in nodes for row in node.rows}
        if len(levels - {None}) > 1:
            yield from self.captions.legend()
        bare = [arrow for arrow in arrows if arrow.carries and not arrow.label]
        if len(bare) < sum(arrow.carries for arrow in arrows):
            in_loops = any(entry.axes for entry in self.entries)
            why = ["several values flow along it"] * any(arrow.count > 1 for arrow in bare)
            why += ["it leads into a loop"] * (in_loops and any(one.count == 1 and one.is_reached for one in bare))
            why += ["no gradient comes to where it leads"] * any(not arrow.is_reached for arrow in bare)
            yield from [f"line without a number: {', or '.join(why)}"] if why else []
        yield from self.captions.lines_left_out()
        if any(not arrow.carries for arrow in arrows):
            yield DASHED


def _first_of(rows: list[CircuitRow], what: str) -> list[CircuitRow]:
    # The first rows, and a row with the number of the others.
    if len(rows) <= MOST_ROWS:
        return rows
    more = rows[MOST_ROWS - 1 :]
    return [*rows[: MOST_ROWS - 1], CircuitRow(f"and {plural(len(more), 'more ' + what)}", "", "", more[0].at)]


def _range(first: str, last: str) -> str:
    """Return two texts of the same kind as a range, with their common beginning written once; equal texts as one.

    >>> _range("16×16 rms 0.1", "16×16 rms 0.2"), _range("1", "1")
    ('16×16 rms 0.1 … 0.2', '1')
    """
    common = "".join(first.rpartition("rms ")[:2])
    return first if first == last else f"{first} … {last.removeprefix(common)}"


def _tooltip(entry: Entry) -> str:
    # Return all names of an entry, and its line of source.
    names = " = ".join((entry.name, *entry.aliases))
    if entry.source is None:
        return names
    return f"{names}  {path(entry.source.file, entry.source.line)}  {entry.source.text}"


def _apart(nodes: list[Node], arrows: list[Arrow], most: int) -> tuple[list[Node], list[Arrow]]:
    # Draw a value with very many consumers, such as a mask, beside each of them. Values through which gradients flow
    # are excluded, because the graph would fall apart without them.
    through = {arrow.target for arrow in arrows if arrow.carries}
    consumers = Counter(arrow.source for arrow in arrows if arrow.source not in through)
    by_key = {node.key: node for node in nodes}
    for at, arrow in enumerate(arrows):
        if consumers[arrow.source] >= most:
            key, source, target = f"apart:{at}", by_key[arrow.source], by_key[arrow.target]
            nodes.append(replace(source, key=key, cluster=target.cluster, kind="apart"))
            arrows[at] = replace(arrow, source=key)
    for at, node in enumerate(nodes):
        if consumers[node.key] >= most:
            said = f"flows into {consumers[node.key]} others, and is named there"
            nodes[at] = replace(node, lines=(*node.lines, said))
    return nodes, arrows
