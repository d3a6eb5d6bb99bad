"""The outcomes of captures: the gradients that the calls for one output brought, or the reasons why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, count, filterfalse, repeat
from operator import attrgetter, is_, or_
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node

from backprobe.backends.facts import Backward, Options, Outcome, OwnCall, OwnPass
from backprobe.backends.outcomes import Outcomes
from backprobe.backends.protocol import BlockTape
from backprobe.backends.torch import graph, lost_hooks
from backprobe.backends.torch.backward_passes import Output
from backprobe.backends.torch.block_partials import BlockPartials, seeds
from backprobe.backends.torch.capture import Capture, gradient_edge, with_edges
from backprobe.backends.torch.checkpoints import IN_VAIN
from backprobe.backends.torch.columns import Columns
from backprobe.backends.torch.gradient_hooks import Arrivals
from backprobe.backends.torch.graph import Key
from backprobe.backends.torch.none_reads import NoneReads
from backprobe.backends.torch.nonfinite_operations import Births
from backprobe.backends.torch.scaling import Begun, Scaled, scales
from backprobe.backends.torch.strategies import NO_PATH, Missing, edges, hooks_noted, outcome, with_leaves
from backprobe.backends.torch.tape import TorchTape
from backprobe.backends.torch.training import Census, Judged
from backprobe.backends.torch.writes import TOGETHER
from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Reason

AROUND = -1  # used instead of an output's number, for the part of a CopySlices node's gradient that bypasses a view
IS_LIMITED, LEAVES_GRAPH = attrgetter("is_limited"), attrgetter("leaves_graph")
CALL = attrgetter("called", "at", "places", "has_cotangents", "asked")
OVERWRITTEN, APART = Reason("gradient_overwritten"), Reason("gradients_lie_apart")
UNHEARD = Reason("hooks_taken_off")
UNCLEAR = attrgetter("is_unclear")
OF_NUMBER = attrgetter("status", "why", "in_vain", "unasked", "version")  # fields of a capture without an edge


def with_history(capture: Capture) -> Capture:
    # Return the capture in its state after backward. If a reentrant checkpoint has recomputed it, it usually has the
    # history or the reason of the recomputed capture, which may have been recomputed in turn.
    again = None if capture.again is None else with_history(capture.again)
    if again is not None and again.edge is not None:
        return again.but(version=capture.version, alias=capture.alias, snapshot=capture.snapshot, calls=capture.calls)
    if capture.leaf is not None:
        return capture.but(opaque=TOGETHER) if capture.leaf.is_unclear else capture
    if capture.edge is None and capture.in_vain is not None:
        return capture.but(status=GradStatus.DETACHED, why=IN_VAIN)
    if capture.edge is None and again is not None and again.status is not GradStatus.OK:
        return capture.but(status=again.status, why=again.why)
    if capture.edge is None and capture.part is not None:
        return capture.but(status=GradStatus.OPAQUE, why=Reason("not_recomputed"))
    return capture


class BlockOutcomes(TorchTape, BlockTape):
    """The part of a block's tape that reports the results of backward."""

    census: Census
    kept_gradients: NoneReads

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.numbers: dict[Key, int] = {}  # the numbers of the edges and nodes that have hooks
        self.is_shared = False  # do several processes train together?
        self.multiples: list[Begun] = []  # the roots of backward() that are a multiple of another value
        self.scaled = Scaled()
        self.births = Births(self.quiet) if options.nonfinite else None
        self.partials = BlockPartials(full=options.partials == "full") if options.partials else None
        # are values copied, births of NaN searched for, or partials computed?
        self.is_particular = bool(self.copies or options.nonfinite or options.partials)

    def of_output(self, columns: Columns, output: Output) -> Backward:
        # Return the results of the calls for one output.
        places = dict(zip(columns.captures, count(), strict=False)) if output.captures else {}
        begun_at = tuple(map(places.__getitem__, filter(places.__contains__, output.captures)))
        columns = self._settled(columns, output)
        updates = () if self.updates is None else self.updates.found(columns.captures)
        captures, numbers, arrived = columns.captures, columns.numbers, output.arrived
        versions = self.versions(columns.tensors)
        values = columns.values(versions, self.options.create_graph)
        grads = [*map(arrived.get, numbers)]
        for at in columns.rare():
            if (c := captures[at]).opaque is not None or c.writes or c.geometry is not None:
                grads[at] = None
        are_lacking = map(or_, map(is_, grads, repeat(None)), map(is_, values, repeat(None)))
        lacking = [*compress(range(len(captures)), are_lacking)]
        without = [at for at in lacking if values[at] is not None and not captures[at].is_followed]
        is_all_freed = len(without) == len(lacking) and not any(map(LEAVES_GRAPH, output.calls))
        inputs = columns.inputs(later=is_all_freed and not self.is_particular)
        judged = None if output.is_grad else self.census.judged(self.passing.calls)
        plain = dict(zip(without, map(OF_NUMBER, map(captures.__getitem__, without)), strict=True))
        unusual: dict[int, Outcome] = {}
        if len(plain) < len(lacking):
            unusual, plain = self._unusual(captures, lacking, without, values, grads, inputs, judged, output), {}
        outcomes = Outcomes(values, grads, inputs, columns.leaves, versions, unusual, plain)
        there = [*filterfalse((unusual or plain).__contains__, range(len(captures)))]
        there += [at for at, one in unusual.items() if one.status is GradStatus.OK]
        scaled, notes = self._scales(captures, grads) if self.multiples and not output.is_grad else ((), ())
        hooked = columns.hooked()
        notes = (*notes, *hooks_noted(captures, sorted({*hooked}.intersection(there)) if hooked else ()))
        if output.batch and begun_at:
            notes = (*notes, (begun_at[0], Reason("grads_batched", {"count": str(output.batch)})))
        training = None if judged is None else self.census.found(judged, captures, inputs, bool(self.unseen()))
        visited = self._in_order(there, numbers, arrived)
        is_limited = any(map(IS_LIMITED, output.calls))
        calls = self._calls(output, captures) if is_limited else [*map(CALL, output.calls)]
        own = OwnPass(begun_at, not output.is_grad, calls) if calls else None
        passed = Backward(
            outcomes,
            visited,
            notes=notes,
            scales=scaled,
            updates=updates,
            training=training,
            none_reads=self.kept_gradients.found(captures),
            own=own,
        )
        if self.partials is not None:
            begun = seeds(captures, begun_at, output.calls)
            passed = self.partials.links(captures, inputs, grads, begun).added_to(passed)
        if self.births is None:
            return passed
        running = [number for number, call in self.passing.passes.items() if call in output.calls]
        return self.births.added_to(passed, with_edges(captures), running)

    def _calls(self, output: Output, captures: Sequence[Capture]) -> Sequence[OwnCall]:
        # Return the calls for an output, with the positions of their ``inputs=``.
        at = {id(capture.tensor): position for position, capture in enumerate(captures)}
        for call in output.calls:
            call.places = tuple([at[id(one)] for one in call.inputs if id(one) in at])
        return [*map(CALL, output.calls)]

    def _settled(self, columns: Columns, output: Output) -> Columns:
        # Return the captures in their state after the calls for one output.
        captures, touched = columns.captures, dict.fromkeys(output.touched(), OVERWRITTEN)
        touched |= dict.fromkeys(output.apart, APART)
        if output.calls and lost_hooks.may_be_lost():
            touched |= dict.fromkeys(self._unheard(columns, output), UNHEARD)
        if not (touched or columns.rare() or any(map(UNCLEAR, filter(None, columns.listened)))):
            return columns
        found = [
            c if not (c.is_rare or touched or (c.leaf is not None and c.leaf.is_unclear)) else self._judged(c, touched)
            for c in captures
        ]
        return columns if found == captures else Columns.of(found)

    def _unheard(self, columns: Columns, output: Output) -> list[int]:
        # Return the numbers of the leaves that these calls reached and whose hooks PyTorch has removed: none if several
        # processes train together.
        leaves = {leaf.number: columns.tensors[at] for at, leaf in enumerate(columns.listened) if leaf is not None}
        if self.is_shared:  # with several processes, ``.grad`` is read instead
            return []
        with self.quiet(), self.passing.closed():
            found = {id(leaf) for leaf in lost_hooks.lost([*{id(one): one for one in leaves.values()}.values()])}
        behind = graph.leaves(graph.all_nodes([node for call in output.calls for node in call.nodes])) if found else ()
        reached = found.intersection(map(id, behind))
        return [number for number, leaf in leaves.items() if id(leaf) in reached]

    def _in_order(self, there: Sequence[int], numbers: Sequence[int], arrived: Iterable[int]) -> tuple[int, ...]:
        # Return the positions in ``there`` of captures that backward reached, in the order in which it reached them.
        at_of = dict(zip(map(numbers.__getitem__, there), there, strict=True))
        if len(at_of) == len(there):
            return tuple(map(at_of.__getitem__, filter(at_of.__contains__, arrived)))
        order = dict(zip(arrived, count(), strict=False))  # several captures have the same edge
        ranks: list[Any] = [*map(order.get, numbers)]
        return tuple(sorted([at for at in sorted(there) if ranks[at] is not None], key=ranks.__getitem__))

    def _unusual(
        self,
        captures: Sequence[Capture],
        lacking: Sequence[int],
        without: Sequence[int],
        values: Sequence[Any],
        grads: list[Tensor | None],
        inputs: Sequence[tuple[int, ...]],
        judged: Judged | None,
        output: Output,
    ) -> dict[int, Outcome]:
        # Return the outcomes of captures that lack a gradient, or lack a value that can be shown directly, by position.
        #
        # The captures in ``without`` have a value but no history.
        found = {
            at: Outcome((c := captures[at]).status, c.why, values[at], cause=c.in_vain or c.unasked, version=c.version)
            for at in without
        }
        lacking = [at for at in lacking if at not in found]
        passed = {edge: output.arrived.get(number) for edge, number in self.numbers.items()}
        around = {node: gradient for (node, at), gradient in passed.items() if at == AROUND and gradient is not None}
        missing, live, arrivals = self._why_missing(output), self.options.create_graph, Arrivals(passed, {}, around)
        late = self._named_late([captures[at] for at in lacking], output)
        beside = self._beside_inputs([captures[at] for at in lacking], output)
        for at in lacking:
            capture = captures[at]
            if output.batch and (capture.geometry is not None or capture.writes):
                capture = capture.but(opaque=Reason("grads_batched_of_view"))
            why = self._why_of_leaf(capture, output) or {**beside, **late}.get(capture.number, missing)
            if grads[at] is None:
                grads[at] = arrivals.gradient(capture)
            found[at] = outcome(capture, grads[at], edges(inputs[at]), live, why)
        spared = self.census.runs.replaced() if judged is None else judged.spared()
        for call in output.calls if output.is_grad else ():  # such calls reach only the leaves in ``inputs``
            spared |= {*map(id, call.inputs)} & {*map(id, graph.leaves(graph.all_nodes(call.nodes)))}
        return with_leaves(captures, found, self._begun_at(output), spared)

    def _scales(self, captures: Sequence[Capture], grads: Sequence[Any]) -> Any:
        recorded = graph.by_edge(captures)
        leaves = graph.by_edge(with_edges(captures))
        derivatives = {at: grad for at, grad in enumerate(grads) if grad is not None} if self._is_alone() else {}
        return scales(self.multiples, captures, {**leaves, **recorded}, derivatives, self.scaled)

    def _judged(self, capture: Capture, touched: Mapping[int, Reason]) -> Capture:
        # Return a capture in its state after backward. It is marked as opaque if the stored gradient does not belong to
        # it.
        if capture.is_rare or capture.leaf is not None:
            capture = with_history(capture)
        return capture.but(opaque=touched[capture.number]) if capture.number in touched else capture

    def _why_of_leaf(self, capture: Capture, output: Output) -> Missing | None:
        # Return why this version of a leaf has no gradient, if the reason is that the leaf was written to, or that it
        # was named only after the passes; else None.
        leaf = capture.leaf
        if leaf is None:
            return None
        if capture.number != leaf.first or not capture.calls:
            is_older = capture.number != leaf.number and output.calls and not output.is_cut_short
            return (GradStatus.NOT_CONNECTED, Reason("written_since"), None) if is_older else None
        until = max([call.before + 1 for call in output.calls], default=0)
        if leaf.superseded is not None:
            until = min(until, leaf.superseded)
        if until <= capture.calls:
            return GradStatus.BACKWARD_NOT_RUN, Reason("named_late"), None
        updated = GradStatus.NOT_CONNECTED, Reason("written_since_past_autograd"), None
        return updated if leaf.written >= 0 else None

    def _named_late(self, lacking: Sequence[Capture], output: Output) -> dict[int, Missing]:
        # Return the reason for results that were named after a ``backward()`` without ``inputs=`` had passed through
        # their operations, by their numbers.
        found: dict[int, Missing] = {}
        through: dict[int, set[Node]] = {}  # by the number of calls before the result was named
        for one in lacking:
            if one.calls and one.leaf is None and one.edge is not None:
                if one.calls not in through:
                    calls = [call for call in output.calls if call.before < one.calls and not call.is_limited]
                    through[one.calls] = {*graph.all_nodes(node for call in calls for node in call.nodes)}
                if one.edge.node in through[one.calls]:
                    found[one.number] = GradStatus.BACKWARD_NOT_RUN, Reason("named_late"), None
        return found

    def _beside_inputs(self, lacking: Sequence[Capture], output: Output) -> dict[int, Missing]:
        # Return the reason for values through which ``grad()`` did not pass, although its output is computed from them,
        # by their numbers.
        if not (lacking and output.is_grad) or output.is_cut_short:
            return {}
        call, last = output.calls[0], output.calls[-1]
        behind = {*graph.all_nodes(call.nodes)}
        why: Missing = GradStatus.NOT_CONNECTED, Reason("beside_inputs"), call.at
        late: Missing = GradStatus.BACKWARD_NOT_RUN, Reason("named_late"), None
        edges = ((one, one.edge or gradient_edge(one.tensor)) for one in lacking if one.is_followed)
        return {
            one.number: late if one.calls > last.before else why
            for one, edge in edges
            if edge is not None and edge.node in behind
        }

    def _begun_at(self, output: Output) -> list[Node]:
        # Return the nodes from which the calls without ``inputs=`` started. Such calls may bring gradients to all
        # leaves behind these nodes.
        return [node for call in output.calls if not call.is_limited for node in call.nodes]

    def _is_alone(self) -> bool:
        # Was there a single call of ``backward()``, from a single tensor and without a cotangent?
        calls = self.passing.calls
        return len(calls) == 1 and len(calls[0].roots) == 1 and calls[0].cotangents[0] is None

    def _why_missing(self, output: Output) -> Missing:
        # Return why values have no gradient. If ``backward()`` was limited by ``inputs=``, its line is included.
        if not output.calls:
            code = "backward_in_other_thread" if self.passing.is_elsewhere else "backward_not_called"
            return GradStatus.BACKWARD_NOT_RUN, Reason(code), None
        if output.is_cut_short:
            return GradStatus.BACKWARD_NOT_RUN, Reason("backward_cut_short"), None
        limited = [call.at for call in output.calls if call.is_limited and not call.is_grad]
        if limited:
            return GradStatus.NOT_CONNECTED, Reason("no_path_to_inputs"), next(filter(None, limited), None)
        return GradStatus.NOT_CONNECTED, NO_PATH, None
