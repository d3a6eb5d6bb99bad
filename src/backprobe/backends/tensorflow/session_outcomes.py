"""The outcome of each named value of a graph, from the gradients that the program computed in a session."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import GraphNode, Outcome
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.graph_run import TensorflowGraphRun
from backprobe.backends.tensorflow.graph_values import FREE, GraphValue, GraphValues, is_outside
from backprobe.backends.tensorflow.graph_walk import Upstream
from backprobe.backends.tensorflow.session_gradients import GraphPass, tensors_in
from backprobe.backends.tensorflow.session_runs import SessionRun
from backprobe.backends.tensorflow.tensors import is_floating
from backprobe.record.entries import GradStatus
from backprobe.record.graph import reached
from backprobe.record.held import Lost
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason

OF_GRADIENTS, NO_PATH, BESIDE = Reason("no_path_of_gradient"), Reason("no_path"), Reason("beside_sources")


@dataclass(frozen=True)
class Fetched:
    """The ``tf.gradients`` calls for the derivatives of one output, and the numbers of their last run."""

    calls: Sequence[GraphPass]
    run: SessionRun
    grads: Mapping[str, Any]

    @property
    def outputs(self) -> Sequence[Any]:
        return self.calls[0].outputs

    @property
    def found(self) -> dict[Hashable, Any]:
        return {name: gradient for call in self.calls for name, gradient in call.found.items()}


def fetched(runs: Sequence[SessionRun]) -> list[Fetched]:
    """Return the calls and numbers for each output, from the last run that computed its gradients."""
    known: dict[Hashable, Fetched] = {}
    for run in runs:
        calls: dict[Hashable, list[int]] = {}
        for at, one in enumerate(run.passes):
            calls.setdefault(one.key, []).append(at)
        for key, own in calls.items():
            grads = {name: number for at in reversed(own) for name, number in run.grads.get(at, {}).items()}
            known[key] = Fetched([run.passes[at] for at in own], run, grads)
    return [*known.values()]


class PassValues(GraphValues):
    """The graph of a ``tf.gradients`` call, seen from the outputs of the call."""

    def __init__(self, graph: Any, outputs: Sequence[Any], fed: frozenset[str]) -> None:
        super().__init__(graph, list(outputs), "the graph")
        self.fed = fed
        self.dtypes = handles = {variable.tensor.name: variable.dtype.base_dtype for variable in self.variables}
        self.output = outputs[0]
        self.upstream = Upstream(graph, outputs, fed, lambda tensor: tensor.op.type in FREE or tensor.name in handles)

    def value(self, tensor: Any) -> GraphValue:
        dtype = self.dtypes.get(tensor.name, tensor.dtype.base_dtype)
        return GraphValue(GraphNode((tensor.name,), described=self.describe(tensor)), tensor, dtype)


class PassRun(TensorflowGraphRun):
    """One pass. ``named`` are the tensors that have names, by position. ``gradients`` are the gradients that all of the
    program's calls returned.
    """

    def __init__(self, one: Fetched, named: Sequence[Any], gradients: Sequence[Any]) -> None:
        graph = PassValues(one.calls[0].graph, one.outputs, one.run.fed)
        self.one, self.of_gradients = one, _computed_from(gradients)
        super().__init__(graph, [*map(graph.value, named)], False, one.found)
        on_way = {value.tensor.name: at for at, value in enumerate(self.values) if self._is_on_way(value)}
        self.inputs = [
            self.upstream.direct(value.tensor, on_way) if value.tensor.name in on_way else [] for value in self.values
        ]

    def _is_on_way(self, value: GraphValue) -> bool:
        # Could a gradient arrive at the value, whether or not the program requested it?
        is_floating = value.tensor.name in self.upstream.differentiated
        return value.tensor.name in self.one.found or (
            is_floating and self.upstream.leads_to(value.tensor, self.one.outputs)
        )

    def outcomes(self) -> list[Outcome]:
        return [self._fetched(at, value) for at, value in enumerate(self.values)]

    def _status(self, value: GraphValue, found: Mapping[Hashable, Any]) -> tuple[GradStatus, Reason | None]:
        name, upstream = value.tensor.name, self.upstream
        if not is_floating(value.dtype):
            return GradStatus.NOT_FLOAT, Reason("dtype", {"dtype": value.dtype.name})
        if not is_outside(self.graph.graph, value.tensor.op):
            return GradStatus.OPAQUE, Reason("in_loop_or_branch", {"name": value.tensor.op.name})
        if name in found:
            is_there = name in self.one.grads
            return (GradStatus.OK, None) if is_there else (GradStatus.OPAQUE, self._why_lost("grad", name))
        if name not in upstream.tensors:
            return GradStatus.NOT_CONNECTED, OF_GRADIENTS if value.tensor.op in self.of_gradients else NO_PATH
        if upstream.is_cut(value.tensor):
            return GradStatus.DETACHED, Reason(self._code_of_cut(value))
        is_open = upstream.leads_to(value.tensor, self.one.outputs)
        return GradStatus.NOT_CONNECTED, BESIDE if is_open else upstream.why_cut(value.tensor, self.graph.written_as)

    def _why_lost(self, part: str, name: str) -> Reason:
        # Return the reason why there is no number for a value.
        changing = {key: why for key, why in self.one.run.changing.items() if key.startswith(part)}
        operation = next((why for key, why in changing.items() if key.rpartition(" ")[2] == name), None)
        return Reason("not_fetched") if operation is None else Reason("not_run_again", {"operation": operation})

    def _fetched(self, at: int, value: GraphValue) -> Outcome:
        status, why = self.statuses[at]
        name = value.tensor.name
        held = self.one.run.values.get(name)
        cause = self.one.calls[0].line if why is BESIDE else self._cause(value, why)
        return Outcome(
            status,
            why,
            Lost(self._why_lost("value", name)) if held is None else as_eager(held),
            as_eager(self.one.grads[name]) if status is GradStatus.OK else None,
            tuple(map(Edge, self.inputs[at])),
            cause=cause,
        )

    def order(self) -> list[int]:
        """Return the positions of values with a gradient, in the order in which backward reaches them."""
        return [at for at in reversed(range(len(self.values))) if self.statuses[at][0] is GradStatus.OK]


def _computed_from(gradients: Sequence[Any]) -> set[Any]:
    # Return the operations that compute the program's own gradients, and all operations computed from them.
    made = [one.op for one in tensors_in(gradients)]
    return reached(made, lambda operation: [user for output in operation.outputs for user in output.consumers()])


def as_eager(number: Any) -> Any:
    """Return an array as an eager tensor, even if the program is building a graph or has disabled eager execution."""
    with private.eagerly():
        return tf.constant(number)
