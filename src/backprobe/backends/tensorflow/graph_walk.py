"""The tensors that a tensor of a graph is computed from, by name, and the paths of gradients to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from backprobe.backends.tensorflow.graph_private import conducts
from backprobe.findings.phrasing import listed
from backprobe.record.reasons import Reason

CUT = 3  # operations that a reason names


def is_floating(dtype: Any) -> bool:
    return bool(dtype.is_floating or dtype.is_complex)


def carries(tensor: Any) -> bool:
    """Can a gradient flow through a tensor of this dtype? A list of tensors or a variable's handle holds others."""
    return is_floating(tensor.dtype) or tensor.dtype.base_dtype.name in ("variant", "resource")


class Upstream:
    """Every tensor that an output is computed from, up to those that are fed, which nothing before them reaches."""

    def __init__(self, output: Any, fed: frozenset[str], is_leaf: Callable[[Any], bool]) -> None:
        self.output, self.fed = output, fed
        self.tensors: dict[str, Any] = {}
        self.consumers: dict[str, list[Any]] = {}
        walked = set()
        pending = [output]
        while pending:
            tensor = pending.pop()
            if tensor.name in self.tensors:
                continue
            self.tensors[tensor.name] = tensor
            if tensor.name in fed or tensor.op.name in walked:
                continue
            walked.add(tensor.op.name)
            for given in tensor.op.inputs:
                self.consumers.setdefault(given.name, []).append(tensor.op)
                pending.append(given)
        leaves = [t for t in self.tensors.values() if carries(t) and (t.name in fed or is_leaf(t))]
        self.differentiated = self._reached(leaves, lambda operation: operation.type != "StopGradient", carries)
        self.touched = self._reached(leaves, lambda _: True, lambda _: True)

    def _reached(
        self, leaves: Iterable[Any], through: Callable[[Any], bool], onto: Callable[[Any], bool]
    ) -> frozenset[str]:
        """The names of the tensors that these flow into."""
        found: set[str] = set()
        pending = list(leaves)
        while pending:
            tensor = pending.pop()
            if tensor.name in found:
                continue
            found.add(tensor.name)
            for operation in filter(through, self.consumers.get(tensor.name, ())):
                pending += [made for made in operation.outputs if made.name in self.tensors
                            and made.name not in self.fed and onto(made)]  # fmt: skip
        return frozenset(found)

    def is_differentiated(self, tensor: Any) -> bool:
        return tensor.name in self.differentiated

    def is_cut(self, tensor: Any) -> bool:
        """Was it computed from differentiated values, but only along paths without a gradient?"""
        return tensor.name in self.touched and tensor.name not in self.differentiated

    def direct(self, tensor: Any, recorded: Mapping[str, int]) -> list[int]:
        """The recorded values that flow directly into a tensor, in the order of its operation's inputs."""
        return self._nearest(tensor, recorded, conducts, carries)

    def read(self, tensor: Any, recorded: Mapping[str, int]) -> list[int]:
        """The recorded values that it is directly computed from, whether or not a gradient flows there."""
        return self._nearest(tensor, recorded, lambda _: True, lambda _: True)

    def _nearest(
        self, tensor: Any, recorded: Mapping[str, int], through: Callable[[Any], bool], onto: Callable[[Any], bool]
    ) -> list[int]:
        found: dict[int, None] = {}
        seen = {tensor.name}
        pending = list(self._given(tensor, through))[::-1]
        while pending:
            given = pending.pop()
            if given.name in seen or not onto(given):
                continue
            seen.add(given.name)
            if given.name in recorded:
                found[recorded[given.name]] = None
            else:
                pending += list(self._given(given, through))[::-1]
        return list(found)

    def _given(self, tensor: Any, through: Callable[[Any], bool]) -> Iterator[Any]:
        if tensor.name not in self.fed and through(tensor.op):
            yield from tensor.op.inputs

    def why_cut(self, tensor: Any, written_as: Callable[[Any], str | None]) -> Reason:
        """The reason that no gradient reaches a tensor: the first operations that let none through."""
        cut: dict[str, None] = {}
        seen: set[str] = set()
        pending = [tensor]
        while pending:
            given = pending.pop(0)
            if given.name in seen:
                continue
            seen.add(given.name)
            for operation in self.consumers.get(given.name, ()):
                onward = [made for made in operation.outputs if made.name in self.tensors and carries(made)]
                if conducts(operation) and onward:
                    pending += onward
                else:
                    cut[f"{operation.type} ({written_as(operation) or operation.name})"] = None
        if not cut:
            return Reason("custom_gradient")
        return Reason("no_derivative", {"operations": listed(list(cut), CUT)})


def executed(tensors: Iterable[Any], fed: frozenset[str]) -> dict[str, Any]:
    """The operations, by name, that run where these tensors are asked for."""
    found: dict[str, Any] = {}
    pending = [tensor.op for tensor in tensors if tensor.name not in fed]
    while pending:
        operation = pending.pop()
        if operation.name in found:
            continue
        found[operation.name] = operation
        pending += [given.op for given in operation.inputs if given.name not in fed]
        pending += operation.control_inputs
    return found
