"""From the numbers of one run to what became of each value: its status, gradient, inputs, and whether all adds up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from backprobe.backends.facts import Backward, Outcome
from backprobe.backends.immutable import path_sums
from backprobe.backends.tensorflow.graph_values import GraphValue, is_floating_dtype
from backprobe.backends.tensorflow.graph_walk import Upstream, carries
from backprobe.backends.tensorflow.tensors import EPSILON
from backprobe.record.entries import GradStatus, Lost
from backprobe.record.inputs import Edge
from backprobe.record.reasons import Reason


@dataclass(frozen=True, eq=False)
class Given:
    """The tensors that give a value and its gradient in a run; None where there is none."""

    carrier: Any
    gradient: Any
    is_executed: bool = True


@dataclass(frozen=True, eq=False)
class Taken:
    """One run: its values, how they are linked, and the numbers that it gave, by key."""

    upstream: Upstream
    values: Sequence[GraphValue]
    given: Sequence[Given]
    linked: Sequence[Sequence[int]]
    numbers: Mapping[str, Any]
    output: int
    with_partials: bool
    written_as: Callable[[Any], str | None]


def backward(taken: Taken) -> Backward:
    """The outcomes, in the order of the values; backward visits them the other way round."""
    outcomes = [_outcome(taken, at) for at in range(len(taken.values))]
    order = tuple(at for at in reversed(range(len(outcomes))) if outcomes[at].status is GradStatus.OK)
    sums = None
    if taken.with_partials:
        gradients = [None if one.grad is None else numpy.asarray(one.grad) for one in outcomes]
        epsilons = [EPSILON.get(value.dtype, 0.0) for value in taken.values]
        sums = path_sums(outcomes, gradients, epsilons, taken.output)
    return Backward(outcomes, order, sums)


def _outcome(taken: Taken, at: int) -> Outcome:
    value, given = taken.values[at], taken.given[at]
    status, why = _status(taken, value, given)
    held = taken.numbers.get(f"value {at}")
    if held is None:
        assert why is not None
        held = Lost(why)
    gradient = taken.numbers.get(f"grad {at}") if status is GradStatus.OK else None
    links = tuple(_edge(taken, at, source, held) for source in taken.linked[at] if _flows(taken, at, source))
    return Outcome(status, why, held, gradient, links)


def _flows(taken: Taken, at: int, source: int) -> bool:
    return not taken.with_partials or f"flow {at} {source}" in taken.numbers


def _edge(taken: Taken, at: int, source: int, held: Any) -> Edge:
    """The numbers of an edge. A partial is none of a value that turned out to have more elements than one."""
    partial = taken.numbers.get(f"partial {at} {source}")
    shape = tuple(taken.numbers[f"value {source}"].shape)
    wanted = shape if int(numpy.prod(held.shape)) == 1 else (*held.shape, *shape)
    if partial is not None and tuple(partial.shape) != tuple(wanted):
        partial = None
    return Edge(source, partial, taken.numbers.get(f"flow {at} {source}"))


def _status(taken: Taken, value: GraphValue, given: Given) -> tuple[GradStatus, Reason | None]:
    upstream = taken.upstream
    if value.opaque is not None:
        return GradStatus.OPAQUE, value.opaque
    if not given.is_executed:
        return GradStatus.NOT_EXECUTED, Reason("not_needed")
    if not is_floating_dtype(value.dtype):
        return GradStatus.NOT_FLOAT, Reason("dtype", {"dtype": value.dtype.name})
    if value.tensor.name not in upstream.tensors:
        return GradStatus.NOT_CONNECTED, Reason("output_without")
    if upstream.is_cut(value.tensor):
        return GradStatus.DETACHED, Reason(_cut(upstream, value))
    if given.gradient is None:
        return GradStatus.NOT_CONNECTED, upstream.why_cut(value.tensor, taken.written_as)
    return GradStatus.OK, None


def _cut(upstream: Upstream, value: GraphValue) -> str:
    operation = value.tensor.op
    if operation.type == "StopGradient":
        return "stop_gradient"
    if any(carries(given) and upstream.is_cut(given) for given in operation.inputs):
        return "inputs_detached"
    return "through_other_dtype"
