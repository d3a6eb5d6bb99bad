"""The circuit of a recording: the content of each node, edge and box, before anything is laid out.

Every value is a node with its name, expression, value and gradient; every flow an edge with its local partial. A
``View`` decides which values share a node: those inside a collapsed box, and those of a loop that is rolled up.
"""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from backprobe.backends.discover import load_arrays
from backprobe.draw.text import Captions
from backprobe.findings.phrasing import listed, place, plural
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.graph import Flow, Graph
from backprobe.record.names import partition, split, strip
from backprobe.show.text import outputs, path_sums, printable

LONGEST = 52  # characters of one line in a node
MOST_LINES = 4  # of one text in a node
ROLLED = 3  # repetitions that make a loop


@dataclass(frozen=True)
class View:
    """Which values are drawn as one node, and what edges say."""

    depth: int | None = None  # boxes this deep are collapsed
    roll: bool = False  # loops are rolled up
    apart: int = 12  # a value that flows into this many nodes is drawn apart
    contributions: bool = False  # edges show upstream × local
    collapsed: bool = False  # not as asked, but because there is too much to draw


@dataclass(frozen=True)
class Node:
    """One node: its lines of text, what it stands for, and how large its gradient is (None without one)."""

    key: str
    cluster: str | None
    title: str
    kind: str  # input, parameter, value, output, plain, box, loop, apart
    tooltip: str
    aside: str = ""  # small, beside the title
    expression: str = ""
    lines: tuple[str, ...] = ()
    grad: str = "missing"  # ok, zero, nonfinite, missing
    level: int | None = None


@dataclass(frozen=True)
class Arrow:
    """One edge: from, to, its label, whether it carries a derivative, and how large what flows back along it is."""

    source: str
    target: str
    label: str
    carries: bool
    level: int | None
    is_finite: bool = True
    tooltip: str = ""


@dataclass(frozen=True)
class Cluster:
    """A box around nodes: its key, label, and the box around it."""

    key: str
    label: str
    around: str | None


@dataclass(frozen=True)
class Circuit:
    """Everything that is drawn."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    clusters: tuple[Cluster, ...]
    footer: tuple[str, ...]


class Draft:
    """A record as it will be drawn: first which values share a node, then all that the drawing says."""

    def __init__(self, record: Record, view: View) -> None:
        self.record, self.graph, self.view = record, Graph.of(record), view
        self.entries = record.entries
        self.captions = Captions(record, load_arrays(record.backend))
        self.rolls = _rolls(self.graph) if view.roll else {}
        self.members: dict[str, list[int]] = defaultdict(list)  # the values that share a node, by its key
        self.hidden: list[Entry] = []  # the tensors that are not drawn
        read, reading = ({getattr(flow, end) for flow in self.graph.flows} for end in ("source", "target"))
        for at, entry in enumerate(self.entries):
            if entry.status is GradStatus.NOT_TENSOR:  # a plain number that an expression reads is drawn
                if at in read and type(entry.held_value) in NUMBERS:
                    self.members[self.key(at)].append(at)
            elif entry.status in TAKES_PART or at in read or at in reading:
                self.members[self.key(at)].append(at)
            else:
                self.hidden.append(entry)

    def circuit(self) -> Circuit:
        """Everything that is drawn."""
        arrows = [self._arrow(source, target, own) for (source, target), own in self.flows.items()]
        nodes = [self._node(key, positions) for key, positions in self.members.items()]
        clusters = self._clusters(nodes)
        nodes, clusters = _unclustered(nodes, clusters)
        nodes, arrows = _apart(nodes, arrows, self.view.apart)
        return Circuit(tuple(nodes), tuple(arrows), tuple(clusters), (*self._footer(), *_legend(nodes, arrows)))

    @cached_property
    def flows(self) -> dict[tuple[str, str], list[Flow]]:
        """What flows between two nodes, by their keys."""
        found: dict[tuple[str, str], list[Flow]] = defaultdict(list)
        for flow in self.graph.flows:
            source, target = self.key(flow.source), self.key(flow.target)
            if source in self.members and target in self.members and not self._is_inside(flow, source, target):
                found[source, target].append(flow)
        return found

    # which values are drawn as which node

    def key(self, at: int) -> str:
        own = self._collapsed(self.graph.box_of[at]) or str(at)
        return self.rolls.get(own, own)

    def _collapsed(self, box: str | None) -> str | None:
        """The outermost collapsed box around a box, itself included."""
        depth = self.view.depth
        while box is not None and depth is not None and self.graph.boxes[box].level > depth:
            box = self.graph.boxes[box].around
        return box if box is not None and depth is not None and self.graph.boxes[box].level == depth else None

    def _is_inside(self, flow: Flow, source: str, target: str) -> bool:
        """Does a flow stay within one collapsed box? From one turn of a loop to the next, it does not."""
        boxes = {self._collapsed(self.graph.box_of[at]) for at in (flow.source, flow.target)}
        return source == target and (not source.startswith(LOOP) or (len(boxes) == 1 and None not in boxes))

    # nodes

    def _node(self, key: str, positions: Sequence[int]) -> Node:
        if key.startswith(LOOP):
            return self._loop_node(key, positions)
        return self._box_node(key, positions) if key in self.graph.boxes else self._value_node(key, positions[0])

    def _value_node(self, key: str, at: int) -> Node:
        entry = self.entries[at]
        expression = entry.source.expression if entry.source is not None else ""
        node = Node(key, self._cluster(self.graph.box_of[at]), self.captions.title(at), self._kind(at), _tooltip(entry))
        shown = self._showing(node, at)
        return shown if shown.lines[0] == f"= {expression}" else replace(shown, expression=expression)

    def _showing(self, node: Node, at: int) -> Node:
        """A node with the value and the gradient of an entry."""
        entry, captions = self.entries[at], self.captions
        lines = [f"= {captions.value(entry)}", *filter(None, captions.gradient(at))]
        return replace(node, lines=tuple(lines), grad=captions.kind(entry), level=captions.level(entry.grad_or_none))

    def _kind(self, at: int) -> str:
        if at in self.record.outputs:
            return "output"
        if at in self.graph.parameters:
            return "parameter"
        entry = self.entries[at]
        if entry.status is GradStatus.NOT_TENSOR:
            return "plain"
        return "value" if entry.inputs or entry.reads or (entry.source and entry.source.expression) else "input"

    def _box_node(self, box: str, positions: Sequence[int]) -> Node:
        """A collapsed box says what it returns, and how much is in it."""
        outs = [at for at in self.graph.returned[box] if self.entries[at].status is not GradStatus.NOT_TENSOR]
        inside = len(positions) - len(parameters := [at for at in positions if at in self.graph.parameters])
        counted = [plural(inside, "value")] * (inside > 1) + [plural(len(parameters), "parameter")] * bool(parameters)
        own = self.graph.boxes[box]
        node = Node(box, self._cluster(own.around), own.label, "box", strip(box), ", ".join(counted))
        shown = min(outs, key=lambda at: self.entries[at].status is not GradStatus.OK, default=None)
        return node if shown is None else self._showing(node, shown)

    def _loop_node(self, key: str, positions: Sequence[int]) -> Node:
        """What a loop binds again and again, or many modules alike: the first and the last of them."""
        turns: dict[str, list[int]] = defaultdict(list)
        for at in positions:
            turns[self._collapsed(self.graph.box_of[at]) or str(at)].append(at)
        own = list(turns.items())
        first, last = self._node(*own[0]), self._node(*own[-1])
        return replace(
            last, key=key, cluster=first.cluster, kind="loop", aside=f"{len(own)} times", expression=first.expression,
            title=f"{first.title} … {last.title}" if first.title != last.title else first.title,
            lines=("the first:", *first.lines, "the last:", *last.lines), tooltip=f"{first.tooltip} … {last.tooltip}",
        )  # fmt: skip

    # clusters

    def _cluster(self, box: str | None) -> str | None:
        return None if box is None else self.rolls.get(box, box)

    def _clusters(self, nodes: Sequence[Node]) -> list[Cluster]:
        """The boxes that hold a node, and those around them, the outermost first."""
        found: dict[str, Cluster] = {}

        def add(key: str | None) -> None:
            if key is not None and key not in found:
                own = [box for box in self.graph.boxes.values() if self._cluster(box.full) == key]
                label = own[0].label if len(own) == 1 else f"{own[0].label} … {own[-1].label}, {len(own)} times"
                around = self._cluster(own[0].around)
                add(around)
                found[key] = Cluster(key, label, around)

        for node in nodes:
            add(node.cluster)
        return list(found.values())

    # edges

    def _arrow(self, source: str, target: str, flows: Sequence[Flow]) -> Arrow:
        carrying = [flow for flow in flows if flow.edge is not None]
        contributions = [flow.edge.contribution for flow in carrying if flow.edge is not None]
        sizes = [level for level in map(self.captions.level, contributions) if level is not None]
        label = self.captions.arrow(flows[0], upstream=self.view.contributions) if len(flows) == 1 else ""
        pairs = [f"{self.entries[f.source].name} → {self.entries[f.target].name}" for f in flows]
        is_finite = not any(map(self.captions.is_not_finite, contributions))
        size = max(sizes, default=None)
        return Arrow(source, target, label, bool(carrying), size, is_finite, listed(pairs, MOST_LINES))

    # below

    def _footer(self) -> Iterator[str]:
        yield outputs(self.record)
        if self.record.path_sums is not None:
            yield path_sums(self.record.path_sums)
        else:
            yield "local partials were not recorded: bp.probe(..., partials=True) writes them on the edges"
        if self.view.collapsed:
            asked = ", ".join([f"depth={self.view.depth}"] * bool(self.view.depth) + ["roll=True"] * self.view.roll)
            yield f"{len(self.entries):,} values are more than fit here: drawn with {asked}; ask for another depth"
        if self.hidden:
            yield f"not drawn, because nothing leads to or from it: {listed([each.name for each in self.hidden], 3)}"
        yield from (f"note: {note}" for note in self.record.notes[:3])
        if len(self.record.notes) > 3:
            yield f"and {len(self.record.notes) - 3} more notes: rec.notes"


def _legend(nodes: Sequence[Node], arrows: Sequence[Arrow]) -> Iterator[str]:
    """What the looks mean, as far as they tell anything here."""
    if len({node.level for node in nodes} - {None}) > 1:
        yield "fill and line width: powers of 10 of the gradient's rms, the largest strongest"
    if any(arrow.carries and not arrow.label for arrow in arrows) and any(arrow.label for arrow in arrows):
        yield "line without a number: several values flow along it"
    if any(not arrow.carries for arrow in arrows):
        yield "dashed line: read, but nothing flows back"


TAKES_PART = (GradStatus.OK, GradStatus.NOT_CONNECTED, GradStatus.DETACHED, GradStatus.NO_GRAD, GradStatus.OPAQUE,
              GradStatus.NOT_EXECUTED)  # fmt: skip
NUMBERS = (int, float, complex)
LOOP = "loop:"


def _tooltip(entry: Entry) -> str:
    """The full names, and the line of the source."""
    names = " = ".join((entry.name, *entry.aliases))
    if entry.source is None:
        return names
    return f"{names}  {place(entry.source.file, entry.source.line)}  {entry.source.text}"


def _rolls(graph: Graph) -> dict[str, str]:
    """The loop that a box, or a value outside of boxes that are alike, belongs to: by box or position."""
    boxes = _shared({box: _without_counts(box) for box in graph.boxes})
    places = {}
    for at, entry in enumerate(graph.entries):
        box = graph.box_of[at] or ""
        local = strip(split(graph.full_names[at])[1] or _without_counts(entry.name))
        written = f"{entry.source.line} {entry.source.expression}" if entry.source is not None else ""
        places[str(at)] = f"{boxes.get(box, box)}:{local}@{written}"
    return boxes | _shared(places)


def _shared(forms: Mapping[str, str]) -> dict[str, str]:
    """The loop of each thing whose form is that of enough others."""
    counts = Counter(forms.values())
    return {each: f"{LOOP}{form}" for each, form in forms.items() if counts[form] >= ROLLED}


def _without_counts(scope: str) -> str:
    """A scope with every count, and every number that is a whole segment of its path, left open."""
    return "/".join(".".join("*" if part.isdigit() else part for part in partition(segment, "."))
                    for segment in partition(strip(scope), "/"))  # fmt: skip


def _apart(nodes: list[Node], arrows: list[Arrow], most: int) -> tuple[list[Node], list[Arrow]]:
    """A value that flows into very many others, such as a mask, is named beside each of them instead."""
    # not what gradients flow through: the graph would fall to pieces
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


def _unclustered(nodes: list[Node], clusters: list[Cluster]) -> tuple[list[Node], list[Cluster]]:
    """A module of which only what it returns is drawn needs no box around that."""
    inside = Counter([node.cluster for node in nodes] + [cluster.around for cluster in clusters])
    alone = {cluster.key: cluster for cluster in clusters if inside[cluster.key] == 1}
    dropped: set[str] = set()
    for at, node in enumerate(nodes):
        cluster = alone.get(node.cluster or "")
        if cluster is not None and node.title == "return" and not cluster.key.startswith("/"):
            nodes[at] = replace(node, cluster=cluster.around, title=cluster.label)
            dropped.add(cluster.key)
    return nodes, [cluster for cluster in clusters if cluster.key not in dropped]


def fitted(text: str) -> list[str]:
    """A text in lines that fit a node, the last ending in an ellipsis where it is too long."""
    lines = textwrap.wrap(printable(text), LONGEST, break_long_words=True) or [""]
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], lines[MOST_LINES - 1][:-1] + "…"]
