"""Groups values that share a node: values in a collapsed box or a rolled-up loop, and a module's parameters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

from backprobe.draw.circuit import View
from backprobe.errors import NothingMatched
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.graph import Flow, Graph
from backprobe.record.names import partition, split, strip
from backprobe.record.patterns import compile_pattern, refuse_unmatched
from backprobe.show.flows import NUMBERS, flows_of

ROLLED = 3  # the number of repetitions from which a loop is rolled up
LOOP = "loop:"
TAKES_PART = (
    GradStatus.OK,
    GradStatus.NOT_CONNECTED,
    GradStatus.DETACHED,
    GradStatus.NO_GRAD,
    GradStatus.OPAQUE,
    GradStatus.NOT_EXECUTED,
)


class Grouping:
    """The values of a record, grouped by the node that they share, and the flows between nodes.

    The key of a node is the position of a value, the full name of a box, or the pattern of names in a loop.
    """

    def __init__(self, record: Record, view: View) -> None:
        self.graph, self.entries, self.view = Graph.of(record), record.entries, view
        self.all_flows = flows_of(record)
        self.rolls = rolls_of(self.graph, view) if view.roll or view.turns else {}
        self.members: dict[str, list[int]] = defaultdict(list)
        """The values of each node. A box that is drawn as one node also holds its parameters."""
        self.rows: dict[str, list[int]] = defaultdict(list)
        """The parameters listed in each node of their module, or at the head of a box, by the key of that node or box.
        """
        self.within: dict[int, str] = {}
        """For each parameter that is not a node of its own, the key of the node or box that lists it."""
        for at in self.drawn:
            self._put(at)

    def _put(self, at: int) -> None:
        if at in self.graph.parameters and (box := self.graph.box_of[at]) in self.occupied and box is not None:
            self.within[at] = host = self.key(at) if self.node_of_box[box] else self._host(at, box)
            (self.members if self.node_of_box[box] else self.rows)[host].append(at)
        else:
            self.members[self.key(at)].append(at)

    def _host(self, at: int, box: str) -> str:
        # Return the node that lists a parameter: its only consumer if that is in the parameter's module, else the
        # module's box.
        targets = {self.key(flow.target): self.graph.box_of[flow.target] for flow in self.from_parameter.get(at, ())}
        if len(targets) == 1 and set(targets.values()) == {box}:
            return next(iter(targets))
        return self.cluster(box)

    @cached_property
    def from_parameter(self) -> Mapping[int, list[Flow]]:
        """The flows that start at each parameter, by the parameter's position."""
        found: dict[int, list[Flow]] = defaultdict(list)
        for flow in self.all_flows:
            if flow.source in self.graph.parameters:
                found[flow.source].append(flow)
        return found

    # Methods for the drawn values.

    @cached_property
    def drawn(self) -> list[int]:
        """The values that are drawn: tensors that may get a gradient or have an edge, and numbers that are read."""
        linked = {end for flow in self.all_flows for end in (flow.source, flow.target)}
        read = {flow.source for flow in self.all_flows}
        return [at for at, entry in enumerate(self.entries) if _is_drawn(entry, at in read, at in linked)]

    @cached_property
    def hidden(self) -> list[Entry]:
        """The tensors that are not drawn."""
        drawn = set(self.drawn)
        return [e for at, e in enumerate(self.entries) if at not in drawn and e.status is not GradStatus.NOT_TENSOR]

    @cached_property
    def occupied(self) -> set[str]:
        """The boxes that contain a drawn value other than a parameter."""
        return {box for at in self.drawn if at not in self.graph.parameters for box in self.graph.boxes_around(at)}

    @cached_property
    def bare(self) -> set[str]:
        """Modules that show only their results and parameters. Each is drawn as a single node."""
        inner = {self.graph.boxes[box].around for box in self.occupied}
        returned = {(box, at) for box, positions in self.graph.returned.items() for at in positions}
        values = {(self.graph.box_of[at], at) for at in self.drawn if at not in self.graph.parameters}
        more = {box for box, _ in values - returned}
        return {box for box in self.occupied - inner - more if is_module(box)}

    @property
    def largest_closed(self) -> str | None:
        """The collapsed box that holds the most values."""
        counts = Counter(self.node_of_box[self.graph.box_of[at]] for at in self.drawn)
        closed = {box: count for box, count in counts.items() if box is not None and box not in self.bare}
        return max(closed, key=closed.__getitem__, default=None)

    # Methods for the nodes of values.

    def key(self, at: int) -> str:
        """The key of the node to which a value belongs."""
        own = self.node_of_box[self.graph.box_of[at]] or str(at)
        return self.rolls.get(own, own)

    def cluster(self, box: str) -> str:
        """The key of a box that is drawn as a frame."""
        return self.rolls.get(box, box)

    @cached_property
    def node_of_box(self) -> Mapping[str | None, str | None]:
        """For each box, the outermost box around it (or itself) that is drawn as one node."""
        found: dict[str | None, str | None] = {None: None}
        for box, own in self.graph.boxes.items():  # outer boxes come first
            closed = self.view.depth is not None and own.level >= self.view.depth and box not in self.view.opened
            is_node = box in self.bare or closed
            found[box] = found[own.around] or (box if is_node else None)
        return found

    # Methods for the flows between nodes.

    @cached_property
    def flows(self) -> dict[tuple[str, str], list[Flow]]:
        """The flows between each two nodes, by the keys of the nodes."""
        found: dict[tuple[str, str], list[Flow]] = defaultdict(list)
        for flow in self.all_flows:
            source, target = self.key(flow.source), self.key(flow.target)
            if flow.source in self.within or source not in self.members or target not in self.members:
                continue
            if not self._is_inside(flow, source, target):
                found[source, target].append(flow)
        return found

    @cached_property
    def main(self) -> set[tuple[str, str]]:
        """The main edge into each node: the last edge of the longest path to it, if there is only one longest path.

        Edges from arguments are never main edges, because arguments are drawn beside a chain.
        """
        sources: dict[str, list[str]] = {key: [] for key in sorted(self.members, key=self.begins)}
        for source, target in self.flows:
            if not self.goes_back(source, target):
                sources[target].append(source)
        length: dict[str, int] = {}
        for target, own in sources.items():  # sources come before their targets
            length[target] = 1 + max((length[source] for source in own), default=0)
        longest = {target: [one for one in own if length[one] == length[target] - 1] for target, own in sources.items()}
        inner = {key for key in length if length[key] > 1} | self.graph.boxes.keys()
        return {(own[0], target) for target, own in longest.items() if len(own) == 1 and own[0] in inner}

    def goes_back(self, source: str, target: str) -> bool:
        """Does an edge lead to a node that is computed earlier than its source, or to its source itself?"""
        return self.begins(source) >= self.begins(target)

    def begins(self, key: str) -> int:
        """The position of a node's first value that is not a parameter; if there is none, of its first parameter."""
        positions = self.members[key]
        return next((at for at in positions if at not in self.graph.parameters), positions[0])

    @cached_property
    def borrowed(self) -> dict[str, list[Flow]]:
        """For each node, the flows from parameters that are listed in another module."""
        found: dict[str, list[Flow]] = defaultdict(list)
        for at, host in self.within.items():
            own = strip(self.graph.box_of[at] or "")
            for flow in self.from_parameter.get(at, ()):
                key = self.key(flow.target)
                if (
                    key not in (host, "")
                    and own not in map(strip, self.graph.boxes_around(flow.target))
                    and key in self.members
                ):
                    found[key].append(flow)
        return found

    def _is_inside(self, flow: Flow, source: str, target: str) -> bool:
        # Does a flow stay inside one node? A flow from one iteration of a loop to the next does not.
        boxes = {self.node_of_box[self.graph.box_of[at]] for at in (flow.source, flow.target)}
        return source == target and (not source.startswith(LOOP) or (len(boxes) == 1 and None not in boxes))


def is_module(box: str) -> bool:
    """Does the box belong to a module, rather than to a called function?"""
    return len(partition(box, "/")) == 1


def opened_by(patterns: str | Sequence[str], graph: Graph) -> frozenset[str]:
    """Return the boxes that match patterns, and all boxes around them.

    Raises BadName, and NothingMatched with the nearest names.
    """
    opened: set[str | None] = set()
    for text in [patterns] if isinstance(patterns, str) else patterns:
        pattern = compile_pattern(text, in_function=False)
        found = {box for box in graph.boxes if any(map(pattern.matches, (f"{box}:return", f"{box[1:]}:return")))}
        if not graph.boxes:
            raise NothingMatched(
                "this drawing has no boxes to open",
                asked=f"bp.draw(rec, open={text!r})",
                why="boxes are the modules of a model and the functions that were called",
                next="bp.draw(rec)",
            )
        if not found:
            known = [strip(box).removeprefix("/") for box in graph.boxes]
            refuse_unmatched(text, known, "the boxes of this drawing", lambda name: f"bp.draw(rec, open={name!r})")
        opened |= found
    return with_those_around(opened, graph)


def with_those_around(boxes: Collection[str | None], graph: Graph) -> frozenset[str]:
    """Return some boxes together with all boxes around them."""
    opened = set(boxes)
    while added := {graph.boxes[box].around for box in opened if box is not None} - opened:
        opened |= added
    return frozenset(box for box in opened if box is not None)


def _is_drawn(entry: Entry, is_read: bool, is_linked: bool) -> bool:
    if entry.status is GradStatus.NOT_TENSOR:  # a plain number is drawn if an expression reads it
        return is_read and type(entry.held) in NUMBERS
    return entry.status in TAKES_PART or is_linked


def rolls_of(graph: Graph, view: View) -> dict[str, str]:
    """Map the full names of boxes, and the positions of values, to the loops to which they belong. What belongs to no
    loop is left out.

    The items of a list that one line made are a loop as well. A box that the user wants open belongs to no loop.
    """
    form, held = _form if view.roll else strip, _held(graph)
    boxes: dict[str, str] = {}
    for level in sorted({box.level for box in graph.boxes.values()}):  # outer boxes come first
        own = [box for box in graph.boxes.values() if box.level == level]
        boxes |= _shared(
            {
                box.full: f"{boxes.get(box.around or '', box.around)}>{form(box.label)}{held(box.full)}"
                for box in own
                if box.full not in view.opened
            }
        )
    places = {}
    for at, entry in enumerate(graph.entries):
        box = graph.box_of[at] or ""
        local = _form(split(graph.full_names[at])[1] or form(entry.name))  # the items of a list are repetitions
        written = f"{entry.source.line} {entry.source.expression}" if entry.source is not None else ""
        places[str(at)] = f"{boxes.get(box, box)}:{local}{held(entry.name)}@{written}"
    return boxes | _shared(places)


def _held(graph: Graph) -> Callable[[str], str]:
    # Return a function that gives the parameters inside a module, by their names there and numbers of axes: modules
    # with other parameters are not repetitions of each other.
    found: dict[str, list[str]] = defaultdict(list)
    for at in sorted(graph.parameters):
        entry = graph.entries[at]
        parts = list(partition(entry.name, "."))
        for count in range(1, len(parts)):
            found[".".join(parts[:count])].append(f"{'.'.join(parts[count:])}/{len(entry.shape or ())}")
    return lambda module: str(found.get(strip(module), ""))


def _shared(forms: Mapping[str, str]) -> dict[str, str]:
    # The loop of each box or value whose pattern occurs often enough.
    counts = Counter(forms.values())
    return {each: f"{LOOP}{form}" for each, form in forms.items() if counts[form] >= ROLLED}


def _form(label: str) -> str:
    # Remove the counts from a label, and replace each path segment that is a number by a star.
    return "/".join(
        ".".join("*" if part.isdigit() else part for part in partition(segment, "."))
        for segment in partition(strip(label), "/")
    )
