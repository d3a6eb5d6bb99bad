"""Adds gradient operations to a graph. Each is added once, in a separate name scope, and reused by later calls."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from backprobe.backends.immutable import too_large
from backprobe.errors import Unsupported

SCOPE = "backprobe/"
v1 = tf.compat.v1


@dataclass
class Added:
    """The tensors and operations that were added to one graph, by name, so that the graph is not kept alive."""

    tensors: dict[Hashable, dict[Hashable, str]] = field(default_factory=dict)
    operations: set[str] = field(default_factory=set)


_ADDED: WeakKeyDictionary[Any, Added] = WeakKeyDictionary()


def added(graph: Any) -> set[str]:
    """Return the names of the operations that backprobe added to a graph."""
    return _ADDED.setdefault(graph, Added()).operations


def once(
    graph: Any, key: Hashable, make: Callable[[], Mapping[Hashable, Any]], *, own: bool = True
) -> dict[Hashable, Any]:
    """Return the tensors that ``make`` adds to the graph, or that it has added for this key before, by name. Names for
    which it returned None are left out.

    ``own`` says whether they belong to backprobe rather than to the program's graph.
    """
    made = _ADDED.setdefault(graph, Added())
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
            "the graph is finalized, so no gradient operations can be added to it",
            asked="bp.probe(..., session=s)",
            found="a graph after graph.finalize(), which MonitoredSession too calls",
            why="the first probe of a tensor adds them, and later probes of it reuse them",
            next="probe it once, in a session of its own, before the graph is finalized",
        )


def gradients(output: Any, sources: Sequence[Any], cotangent: Any = None, stopped: Sequence[Any] = ()) -> list[Any]:
    """Call ``tf.gradients``. Returns one dense tensor or None for each source. No gradient flows through the tensors in
    ``stopped``.
    """
    with warnings.catch_warnings():  # IndexedSlices are converted to dense tensors on purpose
        warnings.simplefilter("ignore", UserWarning)
        found = v1.gradients(
            [output], list(sources), None if cotangent is None else [cotangent], stop_gradients=list(stopped) or None
        )
        return [None if flow is None else tf.convert_to_tensor(flow) for flow in found]


def is_large(size: int, source: Any) -> bool:
    """Is the Jacobian block of a value of this size too large to compute, or is its size unknown?"""
    elements = source.shape.num_elements() if source.dtype != tf.resource else 0
    return elements is None or too_large(size * max(elements, 1)) is not None


def blocks(tensor: Any, sources: Sequence[Any], stopped: Sequence[Any]) -> list[Any]:
    """Return the full Jacobian block with respect to each source. All rows are computed in one run."""
    shape = tensor.shape.as_list()
    size = math.prod(shape)
    seeds = tf.reshape(tf.eye(size, dtype=tensor.dtype), [size, *shape])
    rows = tf.vectorized_map(lambda seed: gradients(tensor, sources, seed, stopped), seeds)
    return [tf.reshape(block, tf.concat([shape, tf.shape(block)[1:]], 0)) for block in rows]
