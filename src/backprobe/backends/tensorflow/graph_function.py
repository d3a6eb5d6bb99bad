"""Runs a concrete function, or a signature of a SavedModel, once: its graph is imported with all calls inlined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import GraphNode
from backprobe.backends.tensorflow.graph_definition import renamed, tensors_taken, without
from backprobe.backends.tensorflow.graph_gradients import v1
from backprobe.backends.tensorflow.graph_lines import user_line
from backprobe.backends.tensorflow.graph_mode import GraphProgram
from backprobe.backends.tensorflow.graph_values import GraphVariable
from backprobe.backends.tensorflow.private import called_graph, inlined, is_compiled_by_xla
from backprobe.errors import BadOption, Unsupported
from backprobe.record.quoted_errors import said_by
from backprobe.record.source import Source

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
HANDING_ON = frozenset({"Identity", "NoOp"})
INLINER = "Func/"  # the prefix of identities that TensorFlow's inliner puts around an inlined call


class FunctionProgram(GraphProgram):
    """The graph of a concrete function. Gradients are added to a copy, so the function is not changed."""

    arrays = "tensorflow"

    def __init__(self, function: Any, name: str) -> None:
        self.function, self.wrapper = function, _wrapper(function.graph)
        captured = {inside.name for _, inside in function.graph.captures}
        self.inputs = [given for given in function.inputs if given.name not in captured]
        self.specs = [tf.TensorSpec(given.shape, given.dtype, given.op.name) for given in self.inputs]
        self.original: dict[str, str] = {}  # original names of the captures, by their names in the copy
        self.wrapped = v1.wrap_function(self._imported, self.specs)
        super().__init__(self.wrapped.graph, None, name)
        self.wanted = self._structured([self._real(output) for output in self.imported])

    def _imported(self, *args: Any) -> list[Any]:
        # Import the function's graph into the graph that is being built, and connect its captures.
        graph = v1.get_default_graph()
        given = {known.name: arg for known, arg in zip(self.inputs, args, strict=True)}
        self.variables: list[GraphVariable] = []
        named = {id(variable.handle): variable for variable in self.function.graph.variables}
        for captured, inside in self.function.graph.captures:
            # TensorFlow would rename an operation u if u/ReadVariableOp already existed, so the capture gets another
            # name
            tensor = given[inside.name] = graph.capture(captured, name="backprobe_captured")
            self.original[tensor.op.name] = inside.op.name
            if id(captured) in named:
                variable = named[id(captured)]
                self.variables.append(GraphVariable(variable.name.removesuffix(":0"), tensor, variable.dtype))
        definition = renamed(inlined(self.function))
        definition = without(definition, {name.removesuffix(":0") for name in given})
        # a gradient tape that has recorded the function appends further outputs
        count = sum(part is not None for part in self._returned())
        outputs = self.function.outputs[:count]
        wanted = [output.name for output in outputs if output.name not in given]
        taken = tensors_taken(definition)
        used = {name: tensor for name, tensor in given.items() if name in taken}
        made = iter(tf.graph_util.import_graph_def(definition, used, wanted, name=""))
        self.imported = [given[output.name] if output.name in given else next(made) for output in outputs]
        return self.imported

    def _returned(self) -> list[Any]:
        return list(tf.nest.flatten(self.function.structured_outputs, expand_composites=True))

    def _structured(self, tensors: Sequence[Any]) -> Any:
        # Return these tensors in the structure that the function returns.
        each = iter(tensors)
        flat = [None if part is None else next(each) for part in self._returned()]
        return tf.nest.pack_sequence_as(self.function.structured_outputs, flat, True)

    def _real(self, output: Any) -> Any:
        # Return the tensor that the function returns, before unnamed identities that only pass it on.
        while output.op.type == "Identity" and self.written_as(output.op) is None:
            output = output.op.inputs[0]
        return output

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Bind the arguments, which are those of the function itself."""
        try:
            bound = _in_order(self.function, args, kwargs)
            self.given = [
                tf.convert_to_tensor(value, spec.dtype) for value, spec in zip(bound, self.specs, strict=True)
            ]
        except (TypeError, ValueError) as error:
            raise BadOption(
                f"{self.name} cannot be called with these arguments: {said_by(error)}",
                asked=f"{len(args)} positional argument{'s' * (len(args) != 1)}"
                + "".join(f", {name}=" for name in kwargs),
                found=", ".join(f"{spec.name}: {spec.dtype.name} {spec.shape}" for spec in self.specs) or "no inputs",
                next="the arguments that the function itself takes",
            ) from error

    def fetch(self, tensors: Mapping[str, Any], fed: Sequence[tuple[Any, Any]]) -> tuple[Any, dict[str, Any]]:
        fetches = {"result": self.imported, "numbers": dict(tensors)}
        pruned = self.wrapped.prune([*self.wrapped.inputs[: len(self.specs)], *(seed for seed, _ in fed)], fetches)
        found = pruned(*self.given, *(tf.convert_to_tensor(value) for _, value in fed))
        return self._structured(found["result"]), found["numbers"]

    def nodes(self, output: Any) -> Sequence[GraphNode]:
        found = super().nodes(output)
        for operation in self.executed.values():
            if operation.type in CALLS and is_compiled_by_xla(operation):
                raise Unsupported(
                    "a function that XLA compiles cannot be differentiated inside a graph",
                    asked=f"bp.probe({self.name})",
                    found=f"{self.written_as(operation)}, made with jit_compile=True",
                    why="it stays a single operation, which has no gradient once its graph is imported",
                    next="a concrete function traced without jit_compile=True on the functions it calls",
                )
        return found

    def fetched(self) -> list[Any]:
        return list(self.imported)  # fetching the outputs also runs all writes of the function

    def written_as(self, operation: Any) -> str | None:
        name = super().written_as(operation)
        if name is None or name.startswith(INLINER):
            return None
        if not self.wrapper or operation.type == "Placeholder" or name in self.original:
            return self.original.get(name, name)
        if name.startswith(self.wrapper):
            return name.removeprefix(self.wrapper)
        return None if operation.type in HANDING_ON else name

    def operations(self) -> Sequence[Any]:
        """Return the operations in an order of execution, each after its inputs. Inlining does not keep such an
        order.
        """
        placed: dict[str, Any] = {}
        first = [operation for operation in self.graph.get_operations() if operation.type == "Placeholder"]
        for operation in [*first, *(output.op for output in self.imported), *self.graph.get_operations()]:
            pending = [operation]
            while pending:
                waiting = [given.op for given in pending[-1].inputs if given.op.name not in placed]
                if waiting:
                    pending.append(waiting[0])
                else:
                    done = pending.pop()
                    placed[done.name] = done
        return list(placed.values())

    def line(self, operation: Any) -> Source | None:
        try:
            return user_line(self.function.graph.get_operation_by_name(operation.name))
        except KeyError:
            return None


def _wrapper(graph: Any) -> str:
    # Return the prefix of names in a graph that only calls one function, such as the signature of a SavedModel; "" for
    # other graphs.
    operations = [operation for operation in graph.get_operations() if operation.type != "Placeholder"]
    calls = [operation for operation in operations if operation.type in CALLS]
    if len(calls) != 1 or any(operation.type not in HANDING_ON for operation in operations if operation not in calls):
        return ""
    inner = called_graph(graph, calls[0])
    return f"{calls[0].name}/" + ("" if inner is None else _wrapper(inner))


def _in_order(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    # Return the tensors among the arguments, in the order of the function's inputs. Raises TypeError or ValueError if
    # the arguments do not fit.
    positional, named = function.structured_input_signature
    parameters = list(function.function_type.parameters)
    specs = dict(zip(parameters, positional, strict=False)) | dict(named)
    if len(args) > len(parameters) or any(name in kwargs for name in parameters[: len(args)]):
        raise TypeError(f"it takes {', '.join(parameters) or 'none'}")
    given = dict(zip(parameters, args, strict=False)) | dict(kwargs)
    found = []
    # keywords are inputs in the order of their names, not of the signature
    for name, spec in [(name, specs[name]) for name in (*list(specs)[: len(positional)], *sorted(named))]:
        wanted = tf.nest.flatten(spec)
        if any(isinstance(part, tf.TypeSpec) for part in wanted):
            if name not in given:
                raise TypeError(f"{name} is missing")
            tf.nest.assert_same_structure(spec, given[name])
            parts = zip(wanted, tf.nest.flatten(given.pop(name)), strict=True)
            found += [value for part, value in parts if isinstance(part, tf.TypeSpec)]
        else:
            given.pop(name, None)  # the argument is a constant of the traced graph
    if given:
        raise TypeError(f"{next(iter(given))} is not an argument of it")
    return found
