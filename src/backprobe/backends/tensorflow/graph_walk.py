"""Finds the tensors from which a tensor of a graph is computed, by name, and the paths of gradients to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from backprobe.backends.tensorflow.private import conducts
from backprobe.backends.tensorflow.tensors import is_floating
from backprobe.findings.phrasing import listed
from backprobe.record.graph import reached
from backprobe.record.reasons import Reason

CUT = 3  # the most operations that a reason mentions


def carries(tensor: Any) -> bool:
    """Can a gradient flow through a tensor of this dtype? Variants and handles may contain tensors through which it
    can.
    """
    return is_floating(tensor.dtype) or tensor.dtype.base_dtype.name in ("variant", "resource")


def behind(graph: Any, tensors: Iterable[Any], fed: frozenset[str], *, control: bool) -> dict[str, Any]:
    """Return the operations that compute these tensors, by name and in graph order, up to tensors that are fed.
    ``tensors`` may contain operations.

    With ``control``, operations that only have to run before them are included.
    """

    def before(operation: Any) -> list[Any]:
        given = [tensor.op for tensor in operation.inputs if tensor.name not in fed]
        return [*given, *operation.control_inputs] if control else given

    found = reached([getattr(one, "op", one) for one in tensors if one.name not in fed], before)
    return {operation.name: operation for operation in graph.get_operations() if operation in found}


def taken_by(operations: Iterable[Any]) -> dict[str, list[Any]]:
    """Return those of these operations that use each tensor, by the tensor's name."""
    found: dict[str, list[Any]] = {}
    for operation in operations:
        for given in operation.inputs:
            found.setdefault(given.name, []).append(operation)
    return found


class Upstream:
    """Every tensor from which the outputs are computed. The search ends at tensors that are fed, because these are not
    computed.
    """

    def __init__(self, graph: Any, outputs: Sequence[Any], fed: frozenset[str], is_leaf: Callable[[Any], bool]) -> None:
        operations = behind(graph, outputs, fed, control=False).values()
        self.fed, self.consumers = fed, taken_by(operations)
        self.tensors = {one.name: one for one in outputs} | {
            given.name: given for one in operations for given in one.inputs
        }
        leaves = [name for name, t in self.tensors.items() if carries(t) and (name in fed or is_leaf(t))]
        self.differentiated = reached(
            leaves, lambda name: self.made_of(name, lambda operation: operation.type != "StopGradient", carries)
        )
        self.touched = reached(leaves, lambda name: self.made_of(name, lambda _: True, lambda _: True))

    def made_of(self, name: str, through: Callable[[Any], bool], onto: Callable[[Any], bool]) -> list[str]:
        """Return the names of the tensors that are computed directly from one tensor, by operations that ``through``
        accepts. Tensors that are fed, or that ``onto`` does not accept, are left out.
        """
        return [
            made.name
            for operation in self.consumers.get(name, ())
            if through(operation)
            for made in operation.outputs
            if made.name in self.tensors and made.name not in self.fed and onto(made)
        ]

    def is_cut(self, tensor: Any) -> bool:
        """Was the tensor computed from differentiated values, but only along paths without a gradient?"""
        return tensor.name in self.touched and tensor.name not in self.differentiated

    def direct(self, tensor: Any, recorded: Mapping[str, int]) -> list[int]:
        """Return the positions of the recorded values that flow directly into a tensor, along paths that can carry a
        gradient.
        """

        def before(name: str) -> list[str]:
            operation = self.tensors[name].op
            if name in self.fed or (name in recorded and name != tensor.name) or not conducts(operation):
                return []
            # differentiating a loop adds inputs to it
            return [given.name for given in operation.inputs if carries(given) and given.name in self.tensors]

        found = reached([tensor.name], before) - {tensor.name}
        return sorted(recorded[name] for name in found & recorded.keys())

    def why_cut(self, tensor: Any, written_as: Callable[[Any], str | None]) -> Reason:
        """Return the reason why no gradient reaches a tensor: the first operations that let none through, or a custom
        gradient if there are no such operations.
        """
        cut = {f"{one.type} ({written_as(one) or one.name})": None for one in self.cutting(tensor)}
        if not cut:
            return Reason("custom_gradient")
        return Reason("no_derivative", {"operations": listed(list(cut), CUT)})

    def leads_to(self, tensor: Any, outputs: Sequence[Any]) -> bool:
        """Can a gradient flow from one of these outputs back to the tensor on any path?"""
        found = reached([tensor.name], lambda name: self.made_of(name, conducts, carries))
        return any(output.name in found for output in outputs)

    def cutting(self, tensor: Any) -> list[Any]:
        """Return the first operations after a tensor that let no gradient through."""
        found = reached([tensor.name], lambda name: self.made_of(name, conducts, carries))
        return [
            operation
            for name, operations in self.consumers.items()
            if name in found
            for operation in operations
            if not (conducts(operation) and any(made.name in found for made in operation.outputs))
        ]
