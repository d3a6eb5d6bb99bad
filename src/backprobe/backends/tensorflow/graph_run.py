"""One run of a graph: the tensors to fetch for each recorded value, and the outcome of each value."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.facts import Backward, Outcome
from backprobe.backends.immutable import path_sums
from backprobe.backends.tensorflow.graph_gradients import blocks, gradients, is_large, once, v1
from backprobe.backends.tensorflow.graph_values import FREE, GraphValue, GraphValues, is_outside
from backprobe.backends.tensorflow.graph_walk import carries
from backprobe.backends.tensorflow.tensors import is_floating
from backprobe.record.entries import GradStatus
from backprobe.record.held import Lost
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason
from backprobe.record.source import Source


class TensorflowGraphRun:
    """One run of a graph. It stores, by position of the recorded values, the tensors of value and gradient, and the
    direct inputs.

    ``found`` are the tensors of the gradients, by the names of the values.
    """

    def __init__(
        self, graph: GraphValues, values: Sequence[GraphValue], partials: bool | str, found: Mapping[Hashable, Any]
    ) -> None:
        self.graph, self.upstream, self.values, self.partials = graph, graph.upstream, values, partials
        self.seed = found.get("cotangent")
        self.statuses = [self._status(value, found) for value in values]
        self.gradients = [
            found[value.tensor.name] if status is GradStatus.OK else None
            for value, (status, _) in zip(values, self.statuses, strict=True)
        ]
        recorded = {value.tensor.name: at for at, value in enumerate(values) if self.gradients[at] is not None}
        self.inputs = [
            self.upstream.direct(value.tensor, recorded) if self.gradients[at] is not None else []
            for at, value in enumerate(values)
        ]

    def tensors(self) -> dict[str, Any]:
        """Return the tensors to fetch, by the keys under which their numbers are looked up."""
        wanted = {"output": self.graph.output}
        carriers = [self._carrier(value, status) for value, (status, _) in zip(self.values, self.statuses, strict=True)]
        for at, (carrier, gradient) in enumerate(zip(carriers, self.gradients, strict=True)):
            wanted |= {f"value {at}": carrier} if carrier is not None else {}
            wanted |= {f"grad {at}": gradient} if gradient is not None else {}
        return wanted | (self._flows() if self.partials else {})

    def _carrier(self, value: GraphValue, status: GradStatus) -> Any:
        # Return the tensor from which a value is fetched; None if it is opaque or was not executed. A variable may be
        # read only in parts, or only inside calls and loops; then a read is added.
        if status in (GradStatus.OPAQUE, GradStatus.NOT_EXECUTED):
            return None
        if value.carriers or value.tensor.dtype.base_dtype != tf.resource:
            return (*value.carriers, value.tensor)[0]
        read = partial(tf.raw_ops.ReadVariableOp, resource=value.tensor, dtype=value.dtype)
        return once(self.graph.graph, ("read", value.tensor.name), lambda: {"read": read()})["read"]

    # Methods for local derivatives.

    def _flows(self) -> dict[Any, Any]:
        # Return the contribution along each edge, and its partial where one can be computed. They are added to the
        # graph once for each selection.
        recorded = [value.tensor for at, value in enumerate(self.values) if self.gradients[at] is not None]
        names = tuple(gradient.name for gradient in self.gradients if gradient is not None)
        key = ("partials", self.partials, tuple(tensor.name for tensor in recorded), names)

        def make() -> dict[Hashable, Any]:
            made: dict[Hashable, Any] = {}
            for at, sources in enumerate(self.inputs):
                made |= self._flows_into(at, sources, recorded) if sources else {}
            return made

        return once(self.graph.graph, key, make)

    def _flows_into(self, at: int, sources: Sequence[int], recorded: Sequence[Any]) -> dict[Hashable, Any]:
        tensor = self.values[at].tensor
        size = tensor.shape.num_elements()  # None if the size is known only at run time
        stopped = [other for other in recorded if other.op is not tensor.op]
        inputs = {source: self.values[source].tensor for source in sources}
        flows = dict(zip(sources, gradients(tensor, list(inputs.values()), self.gradients[at], stopped), strict=True))
        made: dict[Hashable, Any] = {f"flow {at} {source}": flow for source, flow in flows.items()}
        if tensor.dtype.is_complex or not (self.partials == "full" or size in (1, None)):
            return made
        connected = [source for source in sources if flows[source] is not None]
        if size in (1, None):
            partials = gradients(tensor, [inputs[source] for source in connected], None, stopped)
        else:
            connected = [source for source in connected if not is_large(size, inputs[source])]
            partials = blocks(tensor, [inputs[source] for source in connected], stopped) if connected else []
        return made | {f"partial {at} {source}": block for source, block in zip(connected, partials, strict=True)}

    # Methods for outcomes.

    def backward(self, numbers: Mapping[str, Any]) -> Backward:
        """Return the outcomes in the order of the values, which is the reverse of the order of backward."""
        outcomes = [self._outcome(at, value, numbers) for at, value in enumerate(self.values)]
        order = tuple(at for at in reversed(range(len(outcomes))) if outcomes[at].status is GradStatus.OK)
        if not self.partials:
            return Backward(outcomes, order)
        names = [value.tensor.name for value in self.values]
        return Backward(outcomes, order, path_sums(outcomes, names.index(self.graph.output.name)))

    def _outcome(self, at: int, value: GraphValue, numbers: Mapping[str, Any]) -> Outcome:
        status, why = self.statuses[at]
        held = numbers.get(f"value {at}")
        if held is None:
            assert why is not None
            held = Lost(why)
        gradient = numbers.get(f"grad {at}") if status is GradStatus.OK else None
        sources = [source for source in self.inputs[at] if not self.partials or f"flow {at} {source}" in numbers]
        edges = tuple([self._edge(at, one, held, numbers) for one in sources])
        return Outcome(status, why, held, gradient, edges, cause=self._cause(value, why))

    def _cause(self, value: GraphValue, why: Reason | None) -> Source | None:
        # Return the line of the first operation without a derivative that cuts a value off and whose line is known;
        # None if there is none, or if the value has no gradient for another reason.
        if why is None or why.code != "no_derivative":
            return None
        return next(filter(None, map(self.graph.line, self.upstream.cutting(value.tensor))), None)

    def _edge(self, at: int, source: int, held: Any, numbers: Mapping[str, Any]) -> Edge:
        # Return an edge with its numbers. If a value turns out to have several elements, its partial is left out.
        partial = numbers.get(f"partial {at} {source}")
        shape = tuple(numbers[f"value {source}"].shape)
        wanted = shape if int(numpy.prod(held.shape)) == 1 else (*held.shape, *shape)
        if partial is not None and tuple(partial.shape) != tuple(wanted):
            partial = None
        return Edge(source, partial, numbers.get(f"flow {at} {source}"))

    def _status(self, value: GraphValue, found: Mapping[Hashable, Any]) -> tuple[GradStatus, Reason | None]:
        if value.opaque is not None:
            return GradStatus.OPAQUE, value.opaque
        if value.tensor.op.name not in self.graph.executed and value.tensor.name not in self.graph.fed:
            return GradStatus.NOT_EXECUTED, Reason("not_needed")
        if not is_floating(value.dtype):
            return GradStatus.NOT_FLOAT, Reason("dtype", {"dtype": value.dtype.name})
        if value.tensor.name not in self.upstream.tensors:
            return GradStatus.NOT_CONNECTED, Reason("output_without")
        if value.tensor.name in found:  # even a result of stop_gradient may have a gradient
            return GradStatus.OK, None
        if self.upstream.is_cut(value.tensor):
            return GradStatus.DETACHED, Reason(self._code_of_cut(value))
        return GradStatus.NOT_CONNECTED, self.upstream.why_cut(value.tensor, self.graph.written_as)

    def _code_of_cut(self, value: GraphValue) -> str:
        operation = value.tensor.op
        if operation.type == "StopGradient":
            return "stop_gradient"
        if any(carries(given) and self.upstream.is_cut(given) for given in operation.inputs):
            return "inputs_detached"
        return "through_other_dtype"


def gradients_of(graph: GraphValues, *, is_seeded: bool) -> dict[Hashable, Any]:
    """Return the gradients of the values from which the output is computed, by name. Values without a gradient, and
    those inside loops and branches, are left out. With ``is_seeded``, ``cotangent`` is the placeholder of the output's
    gradient. The gradients are added to the graph once for all selections.
    """
    upstream, output = graph.upstream, graph.output
    fed = [tensor for name, tensor in upstream.tensors.items() if name in graph.fed]
    cut = [tensor for tensor in fed if tensor.op.type not in FREE]
    handles = {variable.tensor.name for variable in graph.variables if is_floating(variable.dtype)}
    sources = [
        tensor
        for name, tensor in upstream.tensors.items()
        if (is_floating(tensor.dtype) or name in handles) and is_outside(graph.graph, tensor.op)
    ]

    def make() -> dict[Hashable, Any]:
        seed = v1.placeholder(output.dtype.base_dtype, output.shape, "cotangent") if is_seeded else None
        found = gradients(output, sources, seed, [tensor for tensor in cut if tensor is not output])
        return {"cotangent": seed} | {s.name: g for s, g in zip(sources, found, strict=True)}

    return once(graph.graph, ("gradients", output.name, is_seeded, tuple(sorted(t.name for t in cut))), make)
