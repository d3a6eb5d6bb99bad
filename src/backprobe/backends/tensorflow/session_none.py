"""The gradients that ``tf.gradients`` returned as None, and the reasons according to the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.cuts import is_cast
from backprobe.backends.tensorflow.graph_lines import user_line
from backprobe.backends.tensorflow.graph_values import WRITING
from backprobe.backends.tensorflow.graph_walk import Upstream, carries
from backprobe.backends.tensorflow.session_gradients import GraphPass
from backprobe.backends.tensorflow.session_outcomes import PassValues
from backprobe.backends.tensorflow.tensors import is_floating
from backprobe.record.graph import reached
from backprobe.record.none_gradients import CutBy, CutOperation, NoneGiven, WhyNone
from backprobe.record.training import ModuleRan, Training, Untrained


def none_given(passes: Sequence[GraphPass], captures: Sequence[Capture]) -> tuple[NoneGiven, ...]:
    """Return the gradients that were None in calls whose line is known. Sources and targets are given by the positions
    of their captures.
    """
    return tuple([one for call in passes if None in [*call.given] for one in _of_call(call, captures)])


def _of_call(call: GraphPass, captures: Sequence[Capture]) -> Iterator[NoneGiven]:
    graph = PassValues(call.graph, call.outputs, frozenset())
    places = {c.source.name: at for at, c in reversed(list(enumerate(captures))) if _is_of(c, call.graph)}
    targets = tuple([places[one.name] for one in call.outputs if one.name in places])
    for source, gradient in zip(call.sources, call.given, strict=True):
        if gradient is None and source is not None and call.line is not None:
            value = graph.value(source)
            why, cuts = _why(graph, source, value.dtype, places)
            yield NoneGiven(
                places.get(source.name),
                source.op.name,
                call.line,
                why,
                cuts=cuts,
                targets=targets,
                dtype=value.dtype.name,
                is_variable=source.name in graph.dtypes,
                in_graph=True,
            )


def _is_of(capture: Capture, graph: Any) -> bool:
    return getattr(capture.source, "graph", None) is graph and hasattr(capture.source, "op")


def _why(
    graph: PassValues, source: Any, dtype: Any, places: Mapping[str, int]
) -> tuple[WhyNone, tuple[CutOperation, ...]]:
    upstream = graph.upstream
    if not is_floating(dtype):
        return WhyNone.NOT_FLOAT, ()
    if source.name not in upstream.tensors:
        return WhyNone.NO_WAY, ()
    if upstream.leads_to(source, graph.wanted):
        return WhyNone.HELD, ()
    behind = reached([source.name], lambda name: upstream.made_of(name, lambda _: True, lambda _: True))
    cuts = [
        _cut(upstream, operation, {name: places[name] for name in behind & places.keys()})
        for operation in upstream.cutting(source)
    ]
    known = tuple(filter(None, cuts))
    return (WhyNone.CUT if known else WhyNone.UNKNOWN), known


def _cut(upstream: Upstream, operation: Any, places: Mapping[str, int]) -> CutOperation | None:
    # Return an operation that lets no gradient through, and the nearest of these values that flow into it; None if the
    # operation's line is not known.
    line = user_line(operation)

    def before(name: str) -> list[str]:
        return [] if name in places else [given.name for given in upstream.tensors[name].op.inputs]

    found = reached([given.name for given in operation.inputs], before) & places.keys()
    values = tuple(sorted(places[name] for name in found))
    dtype = operation.outputs[0].dtype.base_dtype.name if operation.outputs else ""
    return None if line is None else CutOperation(operation.type, _by(operation), dtype, line, values)


def _by(operation: Any) -> CutBy:
    if operation.type == "StopGradient":
        return CutBy.STOP_GRADIENT
    if WRITING.match(operation.type):
        return CutBy.ASSIGNED
    if any(map(carries, operation.outputs)):
        return CutBy.NO_DERIVATIVE
    return CutBy.CAST if is_cast(operation.type) else CutBy.DTYPE


def training(passes: Sequence[GraphPass], captures: Sequence[Capture]) -> Training | None:
    """Return the number of Variables whose gradients the program requested, and those that got none. Return None if the
    program also requested other gradients, or none at all.
    """
    asked: dict[str, Any] = {}
    for call in passes:
        graph = PassValues(call.graph, call.outputs, frozenset())
        for source, gradient in zip(call.sources, call.given, strict=True):
            if source is None or source.name not in graph.dtypes:
                return None
            asked[source.name] = gradient if asked.get(source.name) is None else asked[source.name]
    places = {c.source.name: at for at, c in reversed(list(enumerate(captures))) if hasattr(c.source, "op")}
    lacking = [name for name, gradient in asked.items() if gradient is None]
    untrained = [Untrained(name.partition(":")[0], "", "", ModuleRan.ASKED, own=places.get(name)) for name in lacking]
    return Training(len(asked), untrained=tuple(untrained)) if asked else None
