"""Local partials of a graph that the program has run. They need new operations, so they are computed in a copy of the
graph.

The copy has its own session and receives the same feeds. Its Variables get the values of the program's Variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Options, Outcome
from backprobe.backends.tensorflow.graph_gradients import v1
from backprobe.backends.tensorflow.graph_session import SessionProgram
from backprobe.backends.tensorflow.graph_walk import behind
from backprobe.backends.tensorflow.session_outcomes import Fetched, as_eager
from backprobe.backends.tensorflow.session_runs import changes
from backprobe.errors import BackprobeError
from backprobe.record.entries import GradStatus
from backprobe.record.inputs import Edge, PathSums

ASSIGNING = ("AssignVariableOp", "Assign")
Made = tuple[Sequence[Outcome], PathSums | None]


def with_partials(one: Fetched, named: Sequence[Any], outcomes: Sequence[Outcome], partials: bool | str) -> Made:
    """Return the outcomes with the contribution along each edge, and the sums over paths. A second run computes them.

    Without such a run the outcomes are unchanged and the sums are None: if there are several outputs, if the output's
    gradient was not fetched, if the run would compute something else, or if it fails.
    """
    output = one.outputs[0]
    computed = behind(output.graph, one.outputs, one.run.fed, control=True).values()
    if len(one.outputs) > 1 or any(map(changes, computed)) or output.name not in one.grads:
        return outcomes, None
    with suppress(tf.errors.OpError, ValueError, BackprobeError):
        return _of_copy(one, named, outcomes, partials)
    return outcomes, None


def _of_copy(one: Fetched, named: Sequence[Any], outcomes: Sequence[Outcome], partials: bool | str) -> Made:
    output = one.outputs[0]
    with tf.Graph().as_default() as copy:
        tf.graph_util.import_graph_def(output.graph.as_graph_def(), name="")
        with v1.Session(graph=copy) as session:
            _assign(session, copy, one.run.values)
            program = SessionProgram(copy, copy.get_tensor_by_name(output.name), "the graph", session)
            program.bind((one.run.feeds,), {})
            program.nodes(program.wanted)
            nodes = {value.tensor.name: at for at, value in enumerate(program.values)}
            there = [at for at, tensor in enumerate(named) if tensor.name in nodes]
            wanted = [nodes[named[at].name] for at in there]
            _, _, passed = program.run(one.grads[output.name], wanted, Options(partials=partials))
    found = [*outcomes]
    for at, outcome in zip(there, passed.outcomes, strict=True):
        if found[at].status is GradStatus.OK:
            found[at] = replace(found[at], inputs=tuple([_edge(edge, there) for edge in outcome.inputs]))
    return found, None if passed.sums is None else moved(passed.sums, there)


def _edge(edge: Edge, places: Sequence[int]) -> Edge:
    partial, contribution = (None if one is None else as_eager(one) for one in (edge.partial, edge.contribution))
    return Edge(places[edge.at], partial, contribution)


def _assign(session: Any, copy: Any, values: Mapping[str, Any]) -> None:
    # Assign these values to the Variables of the copy.
    for operation in copy.get_operations():
        handle = operation.inputs[0].name if operation.type in ASSIGNING else ""
        if handle in values:
            session.run(operation, {operation.inputs[1]: values[handle]})


def moved(sums: PathSums, places: Sequence[int]) -> PathSums:
    """Return the path sums with each position replaced by its item in ``places``."""
    worst = None if sums.worst_at is None else places[sums.worst_at]
    return replace(sums, worst_at=worst, unjudged_at=tuple([places[at] for at in sums.unjudged_at]))
