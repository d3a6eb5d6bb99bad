"""The gradients that a program adds to a graph with ``tf.gradients`` while it builds the graph for a session.

``tf.gradients`` adds operations for all values between outputs and sources, but returns only the requested gradients.
The call is observed, so no further operations are needed for the gradients of values in between.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from backprobe.backends.patching import listening
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.graph_gradients import SCOPE
from backprobe.backends.tensorflow.tensors import in_session
from backprobe.backends.user_lines import users_line
from backprobe.record.source import Source


@dataclass(frozen=True, eq=False)
class GraphPass:
    """One call of ``tf.gradients``: its outputs, its sources, and the line that called it.

    ``given`` is what it returned. ``found`` has the gradient of each tensor between outputs and sources, by the
    tensor's name. ``weighted`` has the names of the cotangents and of tensors held constant, because these change the
    derivative.
    """

    outputs: Sequence[Any]
    sources: Sequence[Any]
    given: Sequence[Any]
    found: Mapping[str, Any]
    weighted: tuple[tuple[str, ...], ...]
    line: Source | None

    @property
    def graph(self) -> Any:
        return self.outputs[0].graph

    @property
    def key(self) -> Any:
        """A key that is equal for calls that request the same derivatives."""
        return self.graph, tuple(one.name for one in self.outputs), self.weighted


_HEARD: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
"""The observed calls, by graph and as plain data, because a session may run in a later block."""


class GraphPasses:
    """The calls of ``tf.gradients`` in this thread that one block observes or knows from earlier blocks, except those
    of probes.
    """

    def __init__(self) -> None:
        self.heard: list[GraphPass] = []
        self.known: WeakKeyDictionary[Any, list[GraphPass]] = WeakKeyDictionary()
        self.open: list[dict[str, Any]] = []  # for each running call, the gradients found so far
        self.arguments = signature(getattr(*private.TAKING))

    @contextmanager
    def listening(self) -> Iterator[None]:
        with (
            listening(*private.TAKING, self._taking),
            listening(*private.AGGREGATING, self._aggregating),
        ):
            yield

    def of(self, graph: Any) -> Sequence[GraphPass]:
        """Return the calls for a graph, including those of earlier blocks."""
        known = self.known.setdefault(graph, [])
        known += [_with_tensors(graph, one) for one in _HEARD.get(graph, ())[len(known) :]]
        return known

    def _taking(self, following: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        # Observe a call. It differentiates loops and branches by nested calls, which are not recorded separately.
        found: dict[str, Any] = {}
        self.open.append(found)
        try:
            given = following(*args, **kwargs)
        finally:
            self.open.pop()
        if not self.open:
            self._hear(self.arguments.bind(*args, **kwargs).arguments, given, found, users_line(sys._getframe(1)))
        return given

    def _hear(self, asked: Mapping[str, Any], given: Sequence[Any], found: Any, line: Source | None) -> None:
        outputs = [in_session(one) for one in _listed(asked["ys"])]
        is_own = any(one.name.startswith(SCOPE) for one in tensors_in(given))
        if is_own or not outputs or any(one is None for one in outputs):
            return
        sources = [in_session(one) for one in _listed(asked["xs"])]
        weighted = tuple(_names(asked.get(part)) for part in ("grad_ys", "stop_gradients"))
        call = GraphPass(outputs, sources, list(given), found, weighted, line)
        stored = _HEARD.setdefault(call.graph, [])
        self.of(call.graph)
        stored.append(_changed(call, _name))  # names instead of tensors, so that no graph is kept alive
        self.known[call.graph].append(call)
        self.heard.append(call)

    def _aggregating(self, following: Callable[..., Any], grads: Any, operation: Any, *rest: Any, **named: Any) -> Any:
        # Record the gradients of an operation's outputs, each summed over all operations that use the output.
        summed = following(grads, operation, *rest, **named)
        if self.open:
            self.open[-1].update(
                {
                    made.name: gradient
                    for made, gradient in zip(operation.outputs, summed, strict=True)
                    if isinstance(gradient, tf.Tensor | tf.IndexedSlices)
                }
            )
        return summed


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _names(given: Any) -> tuple[str, ...]:
    # Return the names of tensors; empty if all are None.
    each = [] if given is None else _listed(given)
    return tuple(str(getattr(one, "name", one)) for one in each) if any(one is not None for one in each) else ()


def _changed(call: GraphPass, change: Callable[[Any], Any]) -> GraphPass:
    found = {name: change(gradient) for name, gradient in call.found.items()}
    outputs, sources, given = ([*map(change, part)] for part in (call.outputs, call.sources, call.given))
    return GraphPass(outputs, sources, given, found, call.weighted, call.line)


def tensors_in(gradients: Sequence[Any]) -> list[Any]:
    """Return the tensors of which these gradients consist. A sparse gradient consists of several, and None of none."""
    return list(tf.nest.flatten([one for one in gradients if one is not None], expand_composites=True))


def _name(tensor: Any) -> Any:
    if isinstance(tensor, tf.IndexedSlices):
        return tuple(map(_name, (tensor.values, tensor.indices, tensor.dense_shape)))
    return None if tensor is None else tensor.name


def _with_tensors(graph: Any, stored: GraphPass) -> GraphPass:
    def tensor(name: Any) -> Any:
        if isinstance(name, tuple):
            return tf.IndexedSlices(*map(tensor, name))
        return None if name is None else graph.get_tensor_by_name(name)

    return _changed(stored, tensor)
