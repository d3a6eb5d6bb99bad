"""Values that have no gradient and need none, such as printed numbers: one note for each reason."""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.parsed import parsed
from backprobe.explain.about_entries import is_of_whole_numbers, own_name
from backprobe.explain.text import say
from backprobe.findings.phrasing import listed
from backprobe.record.brief import path
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import strip
from backprobe.record.reasons import CUT_IN_GRAPH, WRITTEN_SINCE

OF_GRADIENTS, NOT_ASKED = "no_path_of_gradient", ("beside_inputs", "beside_sources")
"""Codes of reasons: one for derivatives and values computed from them, and those for values whose gradient was not
requested.
"""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
UNUSED = ("not_used", "not_seen_used")
"""Codes of notes on values with a history from which no output is computed."""


def without_fault(flow: Dataflow, missing: Sequence[int], lost: set[int]) -> Iterator[str]:
    """Notes on values whose missing gradient is no fault: they are not used, or can have none.

    Examples are numbers for printing, losses of earlier steps, and values of which only the derivative is used. A value
    computed from nothing that requires a gradient, such as a mask, has a status that says so and gets no note.
    """
    untrained = {one.name for one in flow.record.training.untrained} if flow.record.training is not None else set()
    groups = _of_no_use(flow, missing, lost)
    # If the program trains, only parameters need a gradient, and the census reports those that have none. So there are
    # no notes on values that can have no gradient.
    if flow.record.training is None:
        groups |= _of_no_gradient(flow, missing)
    versions = _versions(flow.record)
    for code, positions in groups.items():
        told = [at for at in sorted(positions) if not is_of_update(flow, at) and flow.entries[at].name not in untrained]
        among = set(positions)
        spelled = [_spelled(flow.entries[at].name, versions, among) + _made_at(flow, at) for at in told]
        if spelled:
            counts = Counter(spelled).items()
            yield say(code, names=listed([name + (f" ({count} times)" if count > 1 else "") for name, count in counts]))
    unused = {at for code in UNUSED for at in groups.get(code, ())}
    yield from dict.fromkeys(_combined(flow, unused))


def _combined(flow: Dataflow, unused: Set[int]) -> Iterator[str]:
    # Yield notes on unused scalars that combine a value of which an output was computed with another unused scalar,
    # such as a loss with a penalty, where only the loss was returned.
    numbers = {at for at in unused if flow.entries[at].shape == () and not is_of_update(flow, at)}
    for at in sorted(numbers):
        own, others = flow.edges[at].keys() & flow.to_outputs, flow.edges[at].keys() & numbers
        if own and others and _made_at(flow, at):
            said = {"own": own, "others": others}
            names = {key: listed([repr(flow.entries[one].name) for one in sorted(held)]) for key, held in said.items()}
            yield say("combined", whole=repr(flow.entries[at].name), place=_made_at(flow, at), **names)


def _of_no_use(flow: Dataflow, missing: Sequence[int], lost: set[int]) -> dict[str, Collection[int]]:
    # Group by the code of their note: values whose numbers no output uses, values that the graph shows to be cut off,
    # and values whose gradient was not requested.
    asked = {one.at for one in flow.record.none_given}
    derived = {at for at in lost if at in flow.derived and at not in asked}
    in_graph = {at for at in lost if flow.entries[at].is_because(*CUT_IN_GRAPH)}
    unused = lost - in_graph - flow.before(derived) - replaced_leaves(flow)
    return {
        "only_derivative": derived,
        "cut_in_graph": in_graph,
        "not_asked": [at for at in missing if flow.entries[at].is_because(*NOT_ASKED)],
        "not_used" if _are_outputs_read(flow) else "not_seen_used": [
            at
            for at in unused
            if not (_is_item(flow.entries[at]) or is_of_gradients(flow, at) or _is_kept(flow.entries[at]))
        ],
    }


def _of_no_gradient(flow: Dataflow, missing: Sequence[int]) -> dict[str, Collection[int]]:
    # Group values that can have no gradient, or were never computed, by the code of the note on them.
    idle = [at for at in missing if flow.entries[at].status is GradStatus.NOT_EXECUTED]
    return {
        "not_tensors": [at for at in missing if flow.entries[at].status is GradStatus.NOT_TENSOR],
        "model_states": [at for at in missing if flow.entries[at].is_because("state_no_path")],
        "no_floats": [at for at in missing if is_of_whole_numbers(flow.entries[at])],
        "never_computed": [at for at in idle if not flow.entries[at].is_because("module_not_run")],
        "no_call_seen": [at for at in idle if flow.entries[at].is_because("module_not_run")],
    }


def _made_at(flow: Dataflow, at: int) -> str:
    # Return the line of a scalar that has a history but no path to the output; empty for any other value. The program
    # may have meant the scalar as a part of the loss.
    entry = flow.entries[at]
    is_number = entry.status is GradStatus.NOT_CONNECTED and entry.shape == ()
    return f" ({path(entry.source.file, entry.source.line)})" if is_number and entry.source is not None else ""


def _versions(record: Record) -> Mapping[str, Sequence[int]]:
    # The positions of all versions of each name, by the name without its count.
    found: dict[str, list[int]] = {}
    for name, at in record.names.items():
        found.setdefault(strip(record.printed.get(name, name)).removeprefix(":"), []).append(at)
    return found


def _spelled(full: str, versions: Mapping[str, Sequence[int]], among: Set[int]) -> str:
    # Return a name without its counts if all of its versions are in ``among``, and else with them.
    name = strip(full).removeprefix(":")
    return name if all(other in among for other in versions.get(name, ())) else full.removeprefix(":")


def _are_outputs_read(flow: Dataflow) -> bool:
    # Is it known which values the line of each output mentions? It is unknown for outputs without a name and for
    # modules.
    return all(flow.entries[at].reads for at in flow.record.outputs)


def _is_item(entry: Entry) -> bool:
    # Is the entry bound without being computed, as by a loop or comprehension?
    return entry.source is not None and not entry.source.expression and not entry.op


def _is_kept(entry: Entry) -> bool:
    # In the entry's file, does a function inside another function read a variable of the entry's name, without
    # assigning it? It may run in a backward pass, as a hook does.
    source, name = entry.source, own_name(entry.name)
    inner = _inner_functions("".join(linecache.getlines(source.file))) if source is not None else ()
    return any(_only_reads(one, name) for one in inner)


@lru_cache(maxsize=8)
def _inner_functions(text: str) -> Sequence[ast.AST]:
    # Return the functions that are defined inside other functions.
    tree = parsed(text)
    outer = [one for one in ast.walk(tree) if isinstance(one, FUNCTIONS)] if tree is not None else []
    return [*{one for each in outer for one in ast.walk(each) if isinstance(one, FUNCTIONS) and one is not each}]


def _only_reads(function: ast.AST, name: str) -> bool:
    uses = [one.ctx for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == name]
    given = any(one.arg == name for one in ast.walk(function) if isinstance(one, ast.arg))
    return bool(uses) and not given and all(isinstance(one, ast.Load) for one in uses)


def is_of_update(flow: Dataflow, at: int) -> bool:
    """In a training, does the entry belong to the update after the loss, like gradients and updated parameters?"""
    return flow.record.training is not None and at > max(flow.record.outputs, default=at)


def replaced_leaves(flow: Dataflow) -> set[int]:
    """Return the leaves that were written later, or that share a name with a leaf that got a gradient.

    Counts in names do not matter: the versions are one parameter.
    """
    trained = {strip(e.name) for e in flow.entries if e.is_leaf and e.status is GradStatus.OK}
    return {
        at
        for at, e in enumerate(flow.entries)
        if e.is_leaf and (strip(e.name) in trained or e.is_because(*WRITTEN_SINCE))
    }


def is_of_gradients(flow: Dataflow, at: int) -> bool:
    """Is the entry a derivative that the program took itself, or computed only from such derivatives?"""
    return flow.entries[at].is_because(OF_GRADIENTS)
