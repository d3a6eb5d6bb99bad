"""Values that have no gradient without a fault of their own, such as numbers for people: a note for each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set

from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.about_entries import is_of_whole_numbers
from backprobe.explain.text import say
from backprobe.findings.phrasing import listed
from backprobe.record.brief import path
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import strip
from backprobe.record.reasons import CUT_IN_GRAPH, WRITTEN_SINCE

OF_GRADIENTS, NOT_ASKED = "no_path_of_gradient", ("beside_inputs", "beside_sources")
"""The reasons of what the program took as a derivative, or computed from such, and of what it asked no gradient of."""


def without_fault(flow: Dataflow, missing: Sequence[int], lost: set[int]) -> Iterator[str]:
    """Notes on what has no gradient without a fault of its own: it is not used, or can have none.

    Examples are numbers for people, the losses of earlier steps, and values of which only the derivative is used. What
    is computed from nothing that requires a gradient, as a mask, has its status and is not worth a line.
    """
    untrained = {one.name for one in flow.record.training.untrained} if flow.record.training is not None else set()
    groups = _of_no_use(flow, missing, lost)
    if flow.record.training is None:  # which says what is not trained: the rest needs no gradient
        groups |= _of_no_gradient(flow, missing)
    versions = _versions(flow.record)
    for code, positions in groups.items():
        told = [at for at in sorted(positions) if not is_of_update(flow, at) and flow.entries[at].name not in untrained]
        among = set(positions)
        spelled = [_spelled(flow.entries[at].name, versions, among) + _made_at(flow, at) for at in told]
        if spelled:
            counts = Counter(spelled).items()
            yield say(code, names=listed([name + (f" ({count} times)" if count > 1 else "") for name, count in counts]))


def _of_no_use(flow: Dataflow, missing: Sequence[int], lost: set[int]) -> dict[str, Collection[int]]:
    # By the code of a note: what has a history, and what is computed from it is no part of an output.
    asked = {one.at for one in flow.record.none_given}  # these are named to be differentiated, and not used by that
    derived = {at for at in lost if at in flow.derived and at not in asked}
    in_graph = {at for at in lost if flow.entries[at].is_because(*CUT_IN_GRAPH)}
    unused = lost - in_graph - flow.before(derived) - replaced_leaves(flow)
    return {
        "only_derivative": derived,
        "cut_in_graph": in_graph,
        "not_asked": [at for at in missing if flow.entries[at].is_because(*NOT_ASKED)],
        "not_used" if _are_outputs_read(flow) else "not_seen_used": [
            at for at in unused if not (_is_item(flow.entries[at]) or is_of_gradients(flow, at))
        ],
    }


def _of_no_gradient(flow: Dataflow, missing: Sequence[int]) -> dict[str, Collection[int]]:
    # By the code of a note: what can have none, and what was never computed.
    idle = [at for at in missing if flow.entries[at].status is GradStatus.NOT_EXECUTED]
    return {
        "not_tensors": [at for at in missing if flow.entries[at].status is GradStatus.NOT_TENSOR],
        "model_states": [at for at in missing if flow.entries[at].is_because("state_no_path")],
        "no_floats": [at for at in missing if is_of_whole_numbers(flow.entries[at])],
        "never_computed": [at for at in idle if not flow.entries[at].is_because("module_not_run")],
        "no_call_seen": [at for at in idle if flow.entries[at].is_because("module_not_run")],
    }


def _made_at(flow: Dataflow, at: int) -> str:
    # The line of a single number that is differentiated and leads nowhere: perhaps it was to be part of the loss.
    entry = flow.entries[at]
    is_number = entry.status is GradStatus.NOT_CONNECTED and entry.shape == ()
    return f" ({path(entry.source.file, entry.source.line)})" if is_number and entry.source is not None else ""


def _versions(record: Record) -> Mapping[str, Sequence[int]]:
    # The values of each name without its count.
    found: dict[str, list[int]] = {}
    for name, at in record.names.items():
        found.setdefault(strip(record.printed.get(name, name)).removeprefix(":"), []).append(at)
    return found


def _spelled(full: str, versions: Mapping[str, Sequence[int]], among: Set[int]) -> str:
    # A name without its count, unless another version of it is not among these.
    name = strip(full).removeprefix(":")
    return name if all(other in among for other in versions.get(name, ())) else full.removeprefix(":")


def _are_outputs_read(flow: Dataflow) -> bool:
    # Is it known of each output what its line mentions? It is not of what has no name, nor of a module.
    return all(flow.entries[at].reads for at in flow.record.outputs)


def _is_item(entry: Entry) -> bool:
    # Is it what a loop or a comprehension goes through, and not computed?
    return entry.source is not None and not entry.source.expression and not entry.op


def is_of_update(flow: Dataflow, at: int) -> bool:
    """Is it what a step of training names after its loss: gradients, and the parameters beside them?"""
    return flow.record.training is not None and at > max(flow.record.outputs, default=at)


def replaced_leaves(flow: Dataflow) -> set[int]:
    """Leaves as they were before, or are after, the version that was used: all of them are one parameter."""
    trained = {strip(e.name) for e in flow.entries if e.is_leaf and e.status is GradStatus.OK}
    return {
        at
        for at, e in enumerate(flow.entries)
        if e.is_leaf and (strip(e.name) in trained or e.is_because(*WRITTEN_SINCE))
    }


def is_of_gradients(flow: Dataflow, at: int) -> bool:
    """Is it a derivative that the program took itself, or computed from such alone, as what an update is given?"""
    return flow.entries[at].is_because(OF_GRADIENTS)
