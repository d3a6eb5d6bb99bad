"""Graph mode: values and gradients of a graph's tensors from one ``tf.gradients`` call and one run."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.facts import Backward, Description, Node, Options
from backprobe.backends.tensorflow.graph_gradients import added, once
from backprobe.backends.tensorflow.graph_run import GraphRun
from backprobe.backends.tensorflow.graph_values import CALLING, FREE, REFERENCES, Execution, GraphValue, Variable
from backprobe.backends.tensorflow.graph_walk import Upstream, executed, is_floating
from backprobe.errors import BadOutput, Unsupported
from backprobe.record.containers import leaves
from backprobe.record.reasons import Note
from backprobe.record.source import Source
from backprobe.source.user_code import package


class GraphProgram:
    """Tensors of a graph as a ``Program``; what runs the graph is a subclass's."""

    arrays, framework = "numpy", "tensorflow"

    def __init__(self, graph: Any, wanted: Any, name: str) -> None:
        self.graph, self.wanted, self.name = graph, wanted, name
        self.fed: frozenset[str] = frozenset()
        self.values: list[GraphValue] = []
        self.execution: Execution | None = None
        self.walked: dict[str, Upstream] = {}

    # what runs it

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def fetch(self, tensors: Mapping[str, Any], fed: Sequence[tuple[Any, Any]]) -> tuple[Any, dict[str, Any]]:
        """The result, and the values of these tensors, from one run in which these are fed besides the arguments."""
        raise NotImplementedError

    @cached_property
    def variables(self) -> list[Variable]:
        """The variables of the graph: handles of resources, and references."""
        found = []
        for operation in self.graph.get_operations():
            if operation.type == "VarHandleOp" or operation.type in REFERENCES:
                found.append(Variable(operation.name, operation.outputs[0], operation.get_attr("dtype")))
        return found

    def written_as(self, operation: Any) -> str | None:
        """The name of an operation, and None for one that has none of its own."""
        return None if operation.name in added(self.graph) else str(operation.name)

    def operations(self) -> Sequence[Any]:
        """All of them, in the order of execution."""
        return list(self.graph.get_operations())

    def fetched(self) -> list[Any]:
        """The tensors that a run fetches in any case."""
        return [leaf for _, leaf in leaves(self.wanted) if self.is_tensor(leaf)]

    # the tensors of it

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, tf.Tensor)

    def is_floating(self, tensor: Any) -> bool:
        return is_floating(tf.as_dtype(tensor.dtype))

    def describe(self, tensor: Any) -> Description:
        shape = tf.TensorShape(tensor.shape)
        known = None if shape.num_elements() is None else tuple(shape.as_list())
        return Description(known, tf.as_dtype(tensor.dtype).base_dtype.name)

    def is_differentiated(self, value: Any) -> bool:
        return self._upstream(value).is_differentiated(value)

    def cotangent(self, output: Any, cotangent: Any) -> Any:
        try:
            return numpy.asarray(cotangent, tf.as_dtype(output.dtype).base_dtype.as_numpy_dtype)
        except (TypeError, ValueError) as error:
            raise BadOutput(
                "the cotangent is not a tensor", asked=f"cotangent={cotangent!r}", found=str(error).split("\n")[0],
                next="cotangent=numpy.ones(shape), with the shape of the output",
            ) from error  # fmt: skip

    def target(self, of: Any) -> tuple[Any, Any]:
        return self.wanted, partial(self._applied, of) if callable(of) else of

    def _applied(self, of: Callable[[Any], Any], wanted: Any) -> Any:
        """A function of the target adds operations to the graph: once."""
        names = tuple(leaf.name for _, leaf in leaves(wanted) if self.is_tensor(leaf))
        key = ("of", weakref.ref(of), names)  # a function may hold the graph
        return once(self.graph, key, lambda: {"of": of(wanted)}, own=False)["of"]

    def _upstream(self, output: Any) -> Upstream:
        if output.name not in self.walked:
            handles = {variable.tensor.name for variable in self.variables}
            self.walked[output.name] = Upstream(
                output, self.fed, lambda tensor: tensor.op.type in FREE or tensor.name in handles
            )
        return self.walked[output.name]

    # one run

    def nodes(self, output: Any) -> Sequence[Node]:
        self.execution = Execution(
            self.graph, output, self.fed, self.operations(), executed([output, *self.fetched()], self.fed),
            self._upstream(output), self.variables, self.written_as,
        )  # fmt: skip
        self.values = self.execution.values()
        return [
            replace(value.node, is_output=True) if value.tensor.name == output.name else value.node
            for value in self.values
        ]  # fmt: skip

    def run(self, cotangent: Any, wanted: Sequence[int], options: Options) -> tuple[Any, Any, Backward]:
        _refuse_options(options)
        assert self.execution is not None
        values = [self.values[at] for at in wanted]
        run = GraphRun(self.execution, values, options.partials, is_seeded=cotangent is not None)
        result, numbers = self.fetch(run.tensors(), [(run.seed, cotangent)] if cotangent is not None else [])
        return result, numbers["output"], run.backward(numbers)

    # what else is known

    def source(self, node: int) -> Source | None:
        return user_line(self.values[node].tensor.op)

    def notes(self) -> Sequence[Note]:
        """Operations of the run that compute something inside which has no names."""
        assert self.execution is not None
        calls = [operation for operation in self.execution.executed.values() if operation.type in CALLING]
        named = [(name, operation) for operation in calls if (name := self.written_as(operation)) is not None]
        return [
            Note("one_operation", {"name": name, "kind": CALLING[operation.type]})
            for name, operation in sorted(named, key=itemgetter(0))
        ]

    def explain_error(self, error: BaseException) -> str | None:
        if "output_all_intermediates" in str(error):
            return (
                "backprobe: differentiating a loop or branch of this kind changes its operation, and this session has "
                "run it before; probe in a new tf.compat.v1.Session, or call "
                "tf.compat.v1.experimental.output_all_intermediates(True) before the graph is made"
            )
        return None


def _refuse_options(options: Options) -> None:
    if options.strategy != "edges" or options.create_graph:
        found = "create_graph=True" if options.create_graph else f"strategy={options.strategy!r}"
        raise Unsupported(
            "a graph has one way to its gradients, tf.gradients", asked=found, found="a tensor of a graph",
            why="strategies are for PyTorch; the gradients of a graph are tensors of the graph",
            next="bp.probe(tensor, session=s) without it",
        )  # fmt: skip


def user_line(operation: Any) -> Source | None:
    """The program's line that created an operation; None where the graph was imported."""
    frames = list(operation.traceback or ())
    if any(
        frame.filename.endswith(("framework/importer.py", "framework/function_def_to_graph.py")) for frame in frames
    ):
        return None
    for frame in reversed(frames):
        if package(frame.filename) is None:
            return Source(frame.filename, frame.lineno, linecache.getline(frame.filename, frame.lineno).strip())
    return None
