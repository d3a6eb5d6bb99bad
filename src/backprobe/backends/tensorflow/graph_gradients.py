"""Gradient operations in a graph: each is made once, in a name scope of their own, and used again by later calls."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from backprobe.errors import Unsupported

SCOPE = "backprobe/"
LARGEST_BLOCK = 1_000_000  # elements of a Jacobian block that ``partials="full"`` still takes
v1 = tf.compat.v1


@dataclass
class Made:
    """What was added to one graph, by names, so that nothing here keeps the graph alive."""

    tensors: dict[Hashable, dict[Hashable, str]] = field(default_factory=dict)
    operations: set[str] = field(default_factory=set)


_MADE: WeakKeyDictionary[Any, Made] = WeakKeyDictionary()


def added(graph: Any) -> set[str]:
    """The names of the operations that backprobe added to a graph."""
    return _MADE.setdefault(graph, Made()).operations


def once(
    graph: Any, key: Hashable, make: Callable[[], Mapping[Hashable, Any]], *, own: bool = True
) -> dict[Hashable, Any]:
    """The tensors that ``make`` adds to the graph, or that it added when this key was asked for before.

    ``own`` is whether what it adds is backprobe's, and no part of the user's graph.
    """
    made = _MADE.setdefault(graph, Made())
    if key not in made.tensors:
        _refuse_finalized(graph)
        before = len(graph.get_operations())
        try:
            with graph.as_default(), graph.device(None), v1.control_dependencies(None), v1.name_scope(SCOPE):
                tensors = make()
        finally:
            if own:
                made.operations.update(operation.name for operation in graph.get_operations()[before:])
        made.tensors[key] = {name: tensor.name for name, tensor in tensors.items() if tensor is not None}
    return {name: graph.get_tensor_by_name(tensor) for name, tensor in made.tensors[key].items()}


def _refuse_finalized(graph: Any) -> None:
    if graph.finalized:
        raise Unsupported(
            "the graph is finalized, so no gradient operations can be added to it", asked="bp.probe(..., session=s)",
            found="a graph after graph.finalize(), which MonitoredSession too calls",
            why="the first probe of a tensor adds them, and later probes of it use them again",
            next="probe it once, in a session of its own, before the graph is finalized",
        )  # fmt: skip


def towards(
    output: Any, sources: Sequence[Any], cotangent: Any = None, stopped: Sequence[Any] = ()
) -> list[Any]:  # fmt: skip
    """``tf.gradients``, one dense tensor or None for each source; nothing flows through what is stopped."""
    with warnings.catch_warnings():  # that an IndexedSlices is made dense is what was asked for
        warnings.simplefilter("ignore", UserWarning)
        found = v1.gradients(
            [output], list(sources), None if cotangent is None else [cotangent], stop_gradients=list(stopped) or None
        )
        return [None if flow is None else tf.convert_to_tensor(flow) for flow in found]


@dataclass(frozen=True)
class Flows:
    """One value whose local derivatives are wanted: its tensor, its gradient, and its direct inputs by position."""

    at: int
    tensor: Any
    gradient: Any
    sources: Sequence[tuple[int, Any]]
    size: int | None  # where the graph tells


def local_flows(each: Sequence[Flows], recorded: Sequence[Any], *, full: bool) -> dict[Hashable, Any]:
    """The contribution and the partial along each edge, by ``("flow" or "partial", value, input)``."""
    made: dict[Hashable, Any] = {}
    for one in each:
        stopped = [tensor for tensor in recorded if tensor.op is not one.tensor.op]
        sources = [tensor for _, tensor in one.sources]
        flows = towards(one.tensor, sources, one.gradient, stopped)
        made.update({("flow", one.at, at): flow for (at, _), flow in zip(one.sources, flows, strict=True)})
        if one.tensor.dtype.is_complex or not (full or one.size in (1, None)):
            continue
        connected = [source for source, flow in zip(one.sources, flows, strict=True) if flow is not None]
        if one.size in (1, None):
            partials = towards(one.tensor, [tensor for _, tensor in connected], None, stopped)
        else:
            connected = [source for source in connected if not _is_large(one, source[1])]
            partials = _blocks(one.tensor, [tensor for _, tensor in connected], stopped) if connected else []
        made.update({("partial", one.at, at): flow for (at, _), flow in zip(connected, partials, strict=True)})
    return made


def _is_large(one: Flows, source: Any) -> bool:
    elements = source.shape.num_elements() if source.dtype != tf.resource else 0
    return elements is None or (one.size or 0) * max(elements, 1) > LARGEST_BLOCK


def _blocks(tensor: Any, sources: Sequence[Any], stopped: Sequence[Any]) -> list[Any]:
    """The whole Jacobian block towards each source, all rows at once."""
    shape = tensor.shape.as_list()
    size = math.prod(shape)
    seeds = tf.reshape(tf.eye(size, dtype=tensor.dtype), [size, *shape])
    rows = tf.vectorized_map(lambda seed: towards(tensor, sources, seed, stopped), seeds)
    return [tf.reshape(block, tf.concat([shape, tf.shape(block)[1:]], 0)) for block in rows]
