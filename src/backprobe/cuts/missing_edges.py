"""Finds cuts in a recording: places where an expression mentions a recorded value, but no edge leads back to it.

Gradients flow along the edges of the framework's graph. The program's text shows which values each expression mentions.
If an expression mentions a value with a history, and no edge leads from its result back to that value, the derivative
is lost there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from backprobe.cuts.cutting_operations import Use
from backprobe.cuts.mentions import CHECKPOINT, DIFFERENTIATED, Mention, mentions_of
from backprobe.cuts.unrecorded import CERTAIN, CUT_OFF
from backprobe.record.entries import LINES_OF_THEIR_OWN, Entry, GradStatus, Record
from backprobe.record.graph import Graph, alone, inverted, kept, reached
from backprobe.record.names import partition, split, strip
from backprobe.record.passes import Pass
from backprobe.record.reasons import LIMITED
from backprobe.record.source import Source, place_of

HISTORY = (GradStatus.OK, GradStatus.NOT_CONNECTED, GradStatus.BACKWARD_NOT_RUN, GradStatus.OPAQUE)
LOOPS = ("for ", "async for ")
MATERIALIZED = "materialize_grads"


@dataclass(frozen=True)
class Cut:
    """A mention of a value that is cut off: usually the value has a history, but no edge leads back to it.

    - ``is_silent``: there is an edge, but backward passed no gradient along it.
    - ``is_limited``: as ``is_silent``, because the call that computed gradients did not ask for this one.
    - ``is_behind``: an earlier cut has already removed the value's history, and this cut would remove it again.
    """

    mention: Mention
    is_silent: bool = False
    is_limited: bool = False
    is_behind: bool = False

    @property
    def target(self) -> int:
        return self.mention.target


class Dataflow:
    """The dependencies between recorded values, by edges of the framework's graph or by mentions in the program."""

    def __init__(self, record: Record, *, has_run: bool = True) -> None:
        self.has_run = has_run  # if backward ran to its end, each value with a gradient leads to the output
        self.record, self.entries, self.graph = record, record.entries, Graph.of(record)
        self.position, self.edges = self.graph.positions, self.graph.inputs
        unseen = {at for at, entry in enumerate(record.entries) if entry.is_because("unseen_transform")}
        self.mentions = [mentions_of(at, entry, unseen) for at, entry in enumerate(record.entries)]
        for one in record.passes:
            if MATERIALIZED in one.asked:
                self._leave_out(one)
        self._mention_parameters()
        self.consumers = inverted([self.sources(target) for target in range(len(self.entries))])
        self.after_edges: dict[int, set[int]] = {}  # a cache for ``_descendants``

    @classmethod
    def of(cls, record: Record, *, has_run: bool = True) -> Dataflow:
        """The dataflow of a record, cached as long as the record lives."""
        return kept(record, (cls, has_run), lambda: cls(alone(record), has_run=has_run))

    def _descendants(self, at: int) -> set[int]:
        # A value and the values that it flows into along edges, cached.
        if at not in self.after_edges:
            self.after_edges[at] = self.graph.descendants(at)
        return self.after_edges[at]

    def _leave_out(self, asked: Pass) -> None:
        # Remove mentions of values that a gradient call did not depend on. Such a call returns zeros for an input
        # without influence on its output, and the zeros do not depend on that input.
        line = asked.source
        known = [self.position[name] for name in asked.inputs if name in self.position]
        given = {at for at in known if self.entries[at].status is GradStatus.NOT_CONNECTED}
        for target, entry in enumerate(self.entries):
            if line is not None and place_of(entry.source) == place_of(line):
                self.mentions[target] = [one for one in self.mentions[target] if one.source not in given]

    def has_history(self, at: int) -> bool:
        """Does a value have a gradient history? If its status is OPAQUE, only an edge can show this."""
        status = self.entries[at].status
        return status in HISTORY and (status is not GradStatus.OPAQUE or at in self._on_edges)

    @cached_property
    def _on_edges(self) -> set[int]:
        # The values at an end of some edge.
        return {each for target, sources in enumerate(self.edges) if sources for each in (target, *sources)}

    @cached_property
    def modules_cut(self) -> list[int]:
        """Values without a line, such as return values of modules, that were detached or computed without gradients."""
        return [at for at, entry in enumerate(self.entries) if entry.source is None and entry.status in CUT_OFF]

    @cached_property
    def loop_variables(self) -> list[int]:
        """Loop variables whose numbers come from recorded values.

        The number of iterations then influences the output.
        """
        loops = [
            at
            for at, entry in enumerate(self.entries)
            if entry.status is GradStatus.NOT_TENSOR
            and entry.source is not None
            and entry.source.text.startswith(LOOPS)
        ]
        return [at for at in loops if any(mention.use.kind for mention in self.mentions[at])]

    def _mention_parameters(self) -> None:
        # Add mentions of parameters to the return values of modules without a history, because no expression mentions
        # parameters.
        cut = {strip(self.entries[at].name): at for at in self.modules_cut}
        if "return" in cut:  # this is the return value of the model itself
            cut[""] = cut["return"]
        for name, at in self.record.names.items() if cut else ():
            target = next((cut[path] for path in reversed(_modules_of(name)) if path in cut), None)
            if target is not None:
                self.mentions[target].append(Mention(at, target, self.entries[target].cause))

    def modules_above(self, at: int) -> list[int]:
        """The return values of the modules around a parameter, the outermost first; none for other entries."""
        above = _modules_of(self.entries[at].name) if self.entries[at].source is None else []
        return [self.position[path] for path in above if path in self.position]

    def sources(self, target: int) -> dict[int, None]:
        """The values that flow into a value, by an edge or a mention."""
        return dict.fromkeys((*self.edges[target], *(mention.source for mention in self.mentions[target])))

    @cached_property
    def ends(self) -> set[int]:
        """The values where paths end: the outputs, and ``modules_cut`` and ``loop_variables`` that have no consumer."""
        ends = [at for at in (*self.modules_cut, *self.loop_variables) if not self.consumers[at]]
        return {*self.record.outputs, *ends}

    @cached_property
    def leading(self) -> set[int]:
        """The ends, and the values that flow into one of them."""
        return self.before(self.ends)

    @cached_property
    def to_outputs(self) -> set[int]:
        """The outputs, and the values that flow into one of them."""
        return self.before(self.record.outputs)

    def before(self, outputs: Iterable[int]) -> set[int]:
        """Return these values, and the values that flow into one of them."""
        return reached(outputs, self.sources)

    def after(self, at: int, *, to_leaves: bool = True) -> dict[int, int | None]:
        """Return a value and those that depend on it, nearest first, each with its predecessor on a shortest path.

        A leaf, such as a parameter that an optimizer's step writes to, counts only with ``to_leaves``.
        """
        found: dict[int, int | None] = {at: None}
        pending = deque([at])
        while pending:
            source = pending.popleft()
            for target in self.consumers[source]:
                if target not in found and (to_leaves or not self.entries[target].is_leaf):
                    found[target] = source
                    pending.append(target)
        return found

    def chain(self, after: dict[int, int | None], at: int) -> tuple[str, ...]:
        """The names on the path to a value, as found by ``after``."""
        names = []
        step: int | None = at
        while step is not None:
            names.append(self.entries[step].name)
            step = after[step]
        return tuple(reversed(names))

    def cuts(self, at: int) -> list[Cut]:
        """Return the cuts on paths from one value to an end, in the order of execution, except harmless ones."""
        return self.severing(self.after(at).keys() & self.leading)

    def severing(self, values: set[int], ends: Collection[int] = ()) -> list[Cut]:
        """The cuts between values of a set that block gradients and would have to be repaired."""
        return [cut for cut in self.among(values) if not self._is_beside(cut, ends or self.ends)]

    def cut_off_by(self, cuts: Collection[Cut]) -> set[int]:
        """Return the values before some cuts, except those from which edges lead around every cut.

        The exceptions would gain nothing if the cuts were repaired. If a cut is silent, there are none.
        """
        before = self.before([cut.mention.source for cut in cuts])
        if any(cut.is_silent for cut in cuts):
            return before
        return {at for at in before if not all(cut.target in self._descendants(at) for cut in cuts)}

    def beside(self, values: set[int]) -> list[Mention]:
        """The harmless cuts between values of a set: the cut value also flows around the cut by other edges."""
        return [cut.mention for cut in self.among(values) if self._is_beside(cut, self.ends)]

    def _is_beside(self, cut: Cut, ends: Collection[int]) -> bool:
        # Do the cut-off numbers flow only into values that the cut value also reaches by edges, as in ``u - u.item()``?
        # Repairing such a cut brings no gradient. If the common result is cut off later, the later cut is the cause.
        if cut.is_silent or cut.is_behind:
            return False
        flowed = self._descendants(cut.mention.source)
        seen, pending, is_met = {cut.target}, [cut.target], False
        while pending:
            at = pending.pop()
            if at in ends:
                return False
            targets = self.consumers[at]
            is_met |= not flowed.isdisjoint(targets)
            new = set(targets) - seen - flowed
            seen |= new
            pending += new
        return is_met

    def among(self, values: set[int]) -> list[Cut]:
        """The cuts between values of a set."""
        found = []
        for target in sorted(values):
            found += [
                cut for mention in self.mentions[target] if mention.source in values and (cut := self._cut(mention))
            ]
            found += [
                self._silent(source, target)
                for source in self.edges[target]
                if source in values and self._is_silent(source, target)
            ]
        return found

    @cached_property
    def first_of_line(self) -> dict[int, int]:
        """For each value, the position of the first value with the same name from the same line."""
        firsts: dict[object, int] = {}
        found = {}
        for at, entry in enumerate(self.entries):
            if entry.source is not None:
                found[at] = firsts.setdefault((strip(entry.name), entry.source.file, entry.source.line), at)
        return found

    @cached_property
    def derived(self) -> dict[int, Mention]:
        """Values of which some expression uses only the derivative: for each, the first such mention."""
        found: dict[int, Mention] = {}
        for mention in (mention for mentions in self.mentions for mention in mentions):
            if mention.use.kind == DIFFERENTIATED and not self._flows(mention.source, mention.target):
                found.setdefault(mention.source, mention)
        return found

    def replaced(self, after: Mapping[int, int | None]) -> list[Mention]:
        """The mentions of these values in expressions whose result was replaced by ``replace=``."""
        targets = [at for at in after if self.entries[at].replaced]
        mentions = (mention for at in targets for mention in self.mentions[at] if mention.source in after)
        return [mention for mention in mentions if not self._flows(mention.source, mention.target)]

    def left_out(self, at: int) -> list[Cut]:
        """Return the first mention on a path to an output that has no edge and may not be a real use.

        The value may be mentioned under a condition, or be passed to a call or to an object that is not a tensor.
        """
        mentions = self._between(self.after(at).keys() & self.to_outputs)
        return [Cut(mention) for mention in islice(filter(self._is_left_out, mentions), 1)]

    def _is_left_out(self, mention: Mention) -> bool:
        source, line, use = self.entries[mention.source], mention.line, mention.use
        if source.status is GradStatus.OK or not self.has_history(mention.source) or line is None:
            return False
        is_given = use.call if line == self.entries[mention.target].source else use.is_argument
        is_open = bool(line.expression and (use.is_conditional or is_given))
        return is_open and not self._flows(mention.source, mention.target)

    def _between(self, values: set[int]) -> Iterator[Mention]:
        # Yield the mentions of values of a set by other values of the set.
        return (mention for target in sorted(values) for mention in self.mentions[target] if mention.source in values)

    def lost_beside(self, values: set[int]) -> list[Mention]:
        """The mentions that pass no gradient back to a value which has a gradient by another path."""
        found = []
        for mention in self._between(values):
            source, target = self.entries[mention.source], self.entries[mention.target]
            # skip a line that only gives an existing value another name after backward
            if source.status is not GradStatus.OK or target.is_because("named_late"):
                continue
            flows = self._flows(mention.source, mention.target)
            kinds = {use.kind for use in mention.uses}
            is_cut = not flows and target.status in CUT_OFF and kinds != {"sample"}
            if is_cut or not kinds.isdisjoint(CERTAIN):
                found.append(mention)
        return found

    def _cut(self, mention: Mention) -> Cut | None:
        source, target = self.entries[mention.source], self.entries[mention.target]
        if target.replaced or target.status is GradStatus.NOT_EXECUTED:
            return None  # the value was replaced, or its line did not run
        if mention.use.kind == DIFFERENTIATED and not _is_first_order(mention.use, target):
            return None
        if self.has_history(mention.source):
            arrived = self.has_run and source.status is GradStatus.OK
            connected = arrived or self._flows(mention.source, mention.target) or _is_rewritten(source, target)
            return None if connected or self._may_be_left_out(mention) else Cut(mention)
        if mention.use.kind == CHECKPOINT and source.status is target.status is GradStatus.FROZEN:
            return Cut(mention) if "use_reentrant=False" not in mention.use.text else None
        if mention.is_firm and source.status in CUT_OFF:
            return Cut(mention, is_behind=True) if target.status is not GradStatus.OK else None
        return None

    def _may_be_left_out(self, mention: Mention) -> bool:
        # May the line mention the value without using it for this result, which has a history from other values? This
        # is possible in these cases: the use is conditional or has a computed index; the line has several results that
        # cannot be distinguished; one of several results has no derivative; or the same statement has bound the name.
        #
        # A value that is passed to a call, directly or in a tuple, counts as used. If the line has several results, it
        # counts as used only if no result leads back to the value. The answer is no if the expression cuts in any case,
        # or if the result has no history.
        source, target, use = self.entries[mention.source].source, self.entries[mention.target], mention.use
        if not use.kind and target.status is GradStatus.NOT_FLOAT and _is_one_of_several(target):
            return True  # for example the step count next to an optimizer's state
        if use.kind or (use.flat and not use.is_conditional) or target.status not in HISTORY:
            return False
        line = target.source
        if line is None or mention.line is not line:
            return True
        is_own = place_of(source) == place_of(line)
        if is_own or use.is_conditional or not use.is_argument:
            return True
        return not line.expression and not self._is_lost_by_all(mention)

    def _is_lost_by_all(self, mention: Mention) -> bool:
        # Does the value lack a gradient, and does no result of the line lead back to it?
        if self.entries[mention.source].status is not GradStatus.NOT_CONNECTED:
            return False
        line = self.entries[mention.target].source
        return not any(self._flows(mention.source, at) for at in self._made_by[id(line)])

    @cached_property
    def _made_by(self) -> dict[int, list[int]]:
        # For each line, by its identity, the values with a history that it has computed.
        made: dict[int, list[int]] = {}
        for at, entry in enumerate(self.entries):
            if entry.status in HISTORY:
                made.setdefault(id(entry.source), []).append(at)
        return made

    def _flows(self, source: int, target: int) -> bool:
        # Does a path of edges lead from one value to another? The search is breadth-first, because the path is usually
        # short.
        seen, pending = {target}, deque([target])
        while pending:
            edges = self.edges[pending.popleft()]
            if source in edges:
                return True
            new = edges.keys() - seen
            seen |= new
            pending += new
        return False

    def _is_silent(self, source: int, target: int) -> bool:
        # Did backward pass no gradient along an edge? An older version of a leaf does not count, because all versions
        # share the edge, and the gradient belongs to the last version.
        entry, is_reached = self.entries[source], self.entries[target].status is GradStatus.OK
        return is_reached and entry.status is GradStatus.NOT_CONNECTED and not entry.is_because("written_since")

    def _silent(self, source: int, target: int) -> Cut:
        entry = self.entries[source]
        if entry.is_because(*LIMITED) and entry.cause is not None:
            return Cut(Mention(source, target, entry.cause), is_silent=True, is_limited=True)
        found = next((mention for mention in self.mentions[target] if mention.source == source), None)
        return Cut(found or Mention(source, target, self.entries[target].source), is_silent=True)


def _modules_of(name: str) -> list[str]:
    # The paths of the modules around a parameter, the whole model first; none for other names.
    segments = partition(name, ".") if split(name)[1] is None else ()
    return [".".join(segments[:length]) for length in range(len(segments))]


def _is_rewritten(source: Entry, target: Entry) -> bool:
    # Is the target a later version of the source, both leaves, as after an initialisation? A leaf has no history that
    # could be cut off.
    names = (frozenset(map(strip, (each.name, *each.aliases))) for each in (source, target))
    is_older = source.is_because("written_since") and bool(target.is_leaf)
    return is_older and bool(frozenset.intersection(*names))


def _is_one_of_several(entry: Entry) -> bool:
    # Is the entry an item of a container, or an attribute?
    return "." in strip(entry.name).rpartition(":")[2]


def _is_first_order(use: Use, result: Entry) -> bool:
    # Was ``create_graph`` off, although the text does not show it?
    is_open = "create_graph=" in use.text and "create_graph=True" not in use.text
    return is_open and result.status in CUT_OFF


def places(record: Record) -> dict[int, Source]:
    """Return, by position, the line inside a statement of several lines that cuts a value off, where it is known."""
    several = [
        at
        for at, entry in enumerate(record.entries)
        if entry.status in LINES_OF_THEIR_OWN
        and entry.cause is None
        and entry.source is not None
        and entry.source.below
    ]
    mentions = Dataflow.of(record).mentions if several else []
    cutting = [mention for at in several for mention in mentions[at] if mention.use.kind]
    lines = ((mention.target, mention.place) for mention in reversed(cutting))
    return {at: line for at, line in lines if line is not None and line is not record.entries[at].source}


def causes(record: Record) -> dict[int, Source]:
    """Return, by position, the lines of the first cuts after unconnected values, where they are known.

    The lines are found in one pass from the outputs to the inputs: the first cut of a value is a cut of the value
    itself, or else of a value that it flows into.
    """
    flow = Dataflow.of(record)
    wanted = [at for at, entry in enumerate(record.entries) if entry.status is GradStatus.NOT_CONNECTED]
    own: dict[int, Source] = {}
    found: dict[int, Source] = {}
    limited: dict[int, Source] = {}  # lines that are not replaced by the lines of other cuts
    for cut in reversed(flow.severing(flow.leading)):
        place = cut.mention.place
        if place is not None and not cut.is_behind:
            own[cut.mention.source] = place
            limited |= {cut.mention.source: place} if cut.is_limited else {}
    for at in reversed(wanted):
        behind = [own.get(at), *(found.get(target) for target in flow.consumers[at])]
        line = next((line for line in behind if line is not None), None)
        if line is not None:
            found[at] = line
    return found | limited
