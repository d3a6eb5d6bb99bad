"""Graph mode: values and gradients of a graph's tensors, from one ``tf.gradients`` call and one run."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.facts import Backward, GraphNode, Options
from backprobe.backends.graphs import GraphExecution
from backprobe.backends.refusals import refuse_cotangent
from backprobe.backends.tensorflow.graph_gradients import once
from backprobe.backends.tensorflow.graph_run import TensorflowGraphRun, gradients_of
from backprobe.backends.tensorflow.graph_values import CALLING, GraphValues
from backprobe.backends.tensorflow.tensors import is_floating
from backprobe.record.containers import leaves
from backprobe.record.reasons import Note
from backprobe.record.source import Source


class GraphProgram(GraphValues, GraphExecution):
    """Implements ``GraphExecution`` for tensors of a graph. Subclasses know how to run the graph."""

    arrays, framework = "numpy", "tensorflow"

    @abstractmethod
    def fetch(self, tensors: Mapping[str, Any], fed: Sequence[tuple[Any, Any]]) -> tuple[Any, dict[str, Any]]:
        """Return the result and the values of these tensors, from one run that feeds ``fed`` in addition to the
        arguments.
        """
        ...

    # Methods for tensors.

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, tf.Tensor)

    def is_floating(self, tensor: Any) -> bool:
        return is_floating(tf.as_dtype(tensor.dtype))

    def is_differentiated(self, value: Any) -> bool:
        return value.name in self.upstream_of(value).differentiated

    def cotangent(self, output: Any, cotangent: Any) -> Any:
        try:
            return numpy.asarray(cotangent, tf.as_dtype(output.dtype).base_dtype.as_numpy_dtype)
        except (TypeError, ValueError) as error:
            refuse_cotangent(cotangent, "numpy.ones(shape)", error)

    def target(self, of: Any) -> tuple[Any, Any]:
        return self.wanted, partial(self._applied, of) if callable(of) else of

    def _applied(self, of: Callable[[Any], Any], wanted: Any) -> Any:
        # Apply ``of`` to the target. It adds operations to the graph, so it is applied only once.
        names = tuple(leaf.name for _, leaf in leaves(wanted) if self.is_tensor(leaf))
        key = ("of", weakref.ref(of), names)  # a weak reference, because a function may hold the graph
        return once(self.graph, key, lambda: {"of": of(wanted)}, own=False)["of"]

    # Methods for the run.

    def nodes(self, output: Any) -> Sequence[GraphNode]:
        self.select(output)
        self.values = self.named()
        return [value.node for value in self.values]

    def run(self, cotangent: Any, wanted: Sequence[int], options: Options) -> tuple[Any, Any, Backward]:
        values = [self.values[at] for at in wanted]
        run = TensorflowGraphRun(self, values, options.partials, gradients_of(self, is_seeded=cotangent is not None))
        result, numbers = self.fetch(run.tensors(), [(run.seed, cotangent)] if cotangent is not None else [])
        return result, numbers["output"], run.backward(numbers)

    # Methods for other facts.

    def source(self, node: int) -> Source | None:
        return self.line(self.values[node].tensor.op)

    def notes(self) -> Sequence[Note]:
        """Return notes on operations of the run that run a graph of their own, in which nothing has a name."""
        calls = [operation for operation in self.executed.values() if operation.type in CALLING]
        named = [(name, CALLING[one.type]) for one in calls if (name := self.written_as(one)) is not None]
        return [Note("one_operation", {"name": name, "kind": kind}) for name, kind in sorted(named)]
