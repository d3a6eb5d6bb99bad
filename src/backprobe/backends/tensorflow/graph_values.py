"""The values of a graph: the tensors and variables that have names, and the tensors from which values are fetched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Description, GraphNode
from backprobe.backends.tensorflow.graph_gradients import added
from backprobe.backends.tensorflow.graph_lines import user_line
from backprobe.backends.tensorflow.graph_walk import Upstream, behind, taken_by
from backprobe.backends.tensorflow.tensors import is_floating
from backprobe.record.containers import leaves
from backprobe.record.names import of_graph
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

MOVING = frozenset(
    {
        "Enter",
        "Exit",
        "Merge",
        "Switch",
        "NextIteration",
        "LoopCond",
        "If",
        "StatelessIf",
        "RefEnter",
        "RefExit",
        "RefMerge",
        "RefSwitch",
        "RefNextIteration",
    }
)
"""Operations of control flow that pass values on."""

CALLING = {
    "While": "a loop",
    "StatelessWhile": "a loop",
    "If": "a branch",
    "StatelessIf": "a branch",
    "Case": "a branch",
    "StatelessCase": "a branch",
    "PartitionedCall": "a call of a function",
    "StatefulPartitionedCall": "a call of a function",
}
"""Operations that run a graph of their own."""

WRITING = re.compile(r"Assign|(Resource)?(Sparse)?Apply|(Resource)?Scatter|ResourceStridedSliceAssign")
REFERENCES = frozenset({"Variable", "VariableV2"})
FREE = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})


@dataclass(frozen=True, eq=False)
class GraphVariable:
    """A variable of the graph: its name, and the handle or reference that its reads use."""

    name: str
    tensor: Any
    dtype: Any


@dataclass(frozen=True, eq=False)
class GraphValue:
    """A named value: the tensor with respect to which to differentiate, the tensors from which its value can be
    fetched, and the reason if it is opaque.
    """

    node: GraphNode
    tensor: Any
    dtype: Any
    carriers: tuple[Any, ...] = ()
    opaque: Reason | None = None


class GraphValues:
    """A graph and one run of an output: the values that have names, and the operations that the run executes."""

    def __init__(self, graph: Any, wanted: Any, name: str) -> None:
        self.graph, self.wanted, self.name = graph, wanted, name
        self.fed: frozenset[str] = frozenset()
        self.walked: dict[str, Upstream] = {}
        self.executed: dict[str, Any] = {}

    @cached_property
    def variables(self) -> list[GraphVariable]:
        """The variables of the graph, both resources and references."""
        return [
            GraphVariable(operation.name, operation.outputs[0], operation.get_attr("dtype"))
            for operation in self.graph.get_operations()
            if operation.type == "VarHandleOp" or operation.type in REFERENCES
        ]

    def written_as(self, operation: Any) -> str | None:
        """Return the name of an operation; None if backprobe added the operation."""
        return None if operation.name in added(self.graph) else str(operation.name)

    def line(self, operation: Any) -> Source | None:
        """Return the program's line that created an operation; None if it is not known."""
        return user_line(operation)

    def operations(self) -> Sequence[Any]:
        """Return all operations, in the order of execution."""
        return list(self.graph.get_operations())

    def fetched(self) -> list[Any]:
        """Return the tensors that a run fetches in any case."""
        return [leaf for _, leaf in leaves(self.wanted) if isinstance(leaf, tf.Tensor)]

    def upstream_of(self, output: Any) -> Upstream:
        if output.name not in self.walked:
            handles = {variable.tensor.name for variable in self.variables}
            self.walked[output.name] = Upstream(
                self.graph, [output], self.fed, lambda tensor: tensor.op.type in FREE or tensor.name in handles
            )
        return self.walked[output.name]

    def select(self, output: Any) -> None:
        """Prepare for a run of this output."""
        self.output, self.upstream = output, self.upstream_of(output)
        self.executed = behind(self.graph, [output, *self.fetched()], self.fed, control=True)
        self.takers = taken_by(self.executed.values())

    def named(self) -> list[GraphValue]:
        """Return the variables and the named numeric tensors, in the order of execution. Reads of a variable that the
        run does not write count as the variable.
        """
        variables = {variable.tensor.name: self._variable(variable) for variable in self.variables}
        taken = {read.name for variable in variables.values() for read in variable.carriers}
        found: list[GraphValue] = []
        for operation in self.operations():
            for number, tensor in enumerate(operation.outputs):
                if tensor.name in variables:
                    found.append(variables[tensor.name])
                elif tensor.name not in taken and is_numeric(tensor):
                    found += self._plain(operation, number, tensor)
        return found

    def describe(self, tensor: Any) -> Description:
        shape = tf.TensorShape(tensor.shape)
        known = None if shape.num_elements() is None else tuple(shape.as_list())
        return Description(known, tf.as_dtype(tensor.dtype).base_dtype.name)

    def _plain(self, operation: Any, number: int, tensor: Any) -> list[GraphValue]:
        name = self.written_as(operation)
        if name is None:
            return []
        inside = None if is_outside(self.graph, operation) else Reason("in_loop_or_branch", {"name": name})
        wanted = tensor.name in self.upstream.tensors and is_floating(tensor.dtype)
        wanted = wanted and not (inside and operation.type in MOVING)
        names = (of_graph(f"{name}:{number}"),)
        is_output = tensor.name == self.output.name
        described = self.describe(tensor)
        node = GraphNode(names, by_default=wanted, is_output=is_output, op=operation.type, described=described)
        return [GraphValue(node, tensor, tensor.dtype.base_dtype, () if inside else (tensor,), inside)]

    def _variable(self, variable: GraphVariable) -> GraphValue:
        writers = self._writers(variable)
        opaque = Reason("written_in_run", {"operation": writers[0]}) if writers else None
        reads = [] if opaque else self._reads(variable)
        names = [variable.name, *(name for read in reads if (name := self.written_as(read.op)) is not None)]
        wanted = variable.tensor.name in self.upstream.tensors and is_floating(variable.dtype)
        described = Description(None, variable.dtype.name)
        node = GraphNode(tuple(map(of_graph, names)), True, wanted, op=variable.tensor.op.type, described=described)
        return GraphValue(node, variable.tensor, variable.dtype, tuple(reads), opaque)

    def _reads(self, variable: GraphVariable) -> list[Any]:
        # Return the tensors that this run reads from a variable outside of loops and branches.
        kind = "Identity" if variable.tensor.op.type in REFERENCES else "ReadVariableOp"
        return [
            reader.outputs[0]
            for handle in self._handles(variable)
            for reader in self.upstream.consumers.get(handle, ())
            if reader.type == kind and is_outside(self.graph, reader)
        ]

    def _handles(self, variable: GraphVariable) -> list[str]:
        # Return the names of a variable's handle, including the names under which an inlined call passes it on.
        names = [variable.tensor.name]
        if variable.tensor.dtype.base_dtype.name == "resource":
            for name in names:
                names += [taker.outputs[0].name for taker in self.takers.get(name, ()) if taker.type == "Identity"]
        return names

    def _writers(self, variable: GraphVariable) -> list[str]:
        # Return the names of the operations of this run that write, or may write, to a variable.
        return [
            self.written_as(operation) or operation.name
            for handle in self._handles(variable)
            for operation in self.takers.get(handle, ())
            if WRITING.match(operation.type) or (operation.type in CALLING and not _only_reads(operation, handle))
        ]


def _only_reads(operation: Any, handle: str) -> bool:
    # Does a call, loop or branch only read the variable behind this input? TensorFlow marks such inputs.
    try:
        noted = operation.get_attr("_read_only_resource_inputs")
    except ValueError:
        return False
    return all(at in noted for at, given in enumerate(operation.inputs) if given.name == handle)


def is_outside(graph: Any, operation: Any) -> bool:
    """Is the operation outside of loops and branches, so that its result can be fetched?"""
    return bool(graph.is_fetchable(operation)) and operation.type not in ("Enter", "RefEnter")


def fed_names(graph: Any, feeds: Iterable[Any]) -> list[str]:
    """Return the names of the tensors that these keys of a ``feed_dict`` feed. A key for a sparse tensor feeds
    several.
    """
    parts = [part for key in feeds for part in tf.nest.flatten(key, expand_composites=True) if part is not None]
    return [graph.as_graph_element(part).name for part in parts]


def is_numeric(tensor: Any) -> bool:
    dtype = tensor.dtype.base_dtype
    return is_floating(dtype) or bool(dtype.is_integer or dtype.is_bool)
