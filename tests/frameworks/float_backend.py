"""The least that a backend can be: the function form over the scalars of ``floats``, in a dozen methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import floats
import numpy
from floats import Scalar

import backprobe as bp
from backprobe.backends.facts import Around, Backward, Description, Options, Outcome, Ran, Root
from backprobe.backends.numpy import HostArrays
from backprobe.backends.protocol import Backend, Tape
from backprobe.record.containers import exchanged
from backprobe.record.reasons import Reason

SCALAR = Description((), "float64", "cpu")


@dataclass(frozen=True)
class Capture:
    """A scalar with a name, and why it has no gradient if it has none."""

    scalar: Scalar
    status: bp.GradStatus
    why: Reason | None


class FloatArrays(HostArrays):
    """Scalars as data."""

    name = "floats"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Scalar)

    def describe(self, tensor: Scalar) -> Description:
        return SCALAR

    def to_host(self, tensor: Scalar) -> Any:
        return numpy.asarray(tensor.number)

    def from_host(self, array: Any, dtype: str) -> Scalar:
        return Scalar(array.item())


class FloatTape(Tape):
    """One program over scalars."""

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Scalar)

    def is_floating(self, tensor: Scalar) -> bool:
        return True

    def is_differentiated(self, value: Any) -> bool:
        return isinstance(value, Scalar) and value.is_differentiated

    def describe(self, tensor: Scalar) -> Description:
        return SCALAR

    def cotangent(self, output: Scalar, cotangent: Any) -> Scalar:
        return Scalar(float(cotangent))

    def capture(self, tensor: Scalar, around: Callable[[], Around]) -> Capture:
        if tensor.is_differentiated:
            return Capture(tensor, bp.GradStatus.OK, None)
        reads, unrecorded = around()
        if unrecorded or any(read.status is bp.GradStatus.OK for read in reads):
            return Capture(tensor, bp.GradStatus.DETACHED, Reason("no_history"))
        if any(read.status is bp.GradStatus.DETACHED for read in reads):
            return Capture(tensor, bp.GradStatus.DETACHED, Reason("inherited", {"status": "detached"}))
        return Capture(tensor, bp.GradStatus.FROZEN, Reason("frozen"))

    def run(
        self,
        program: Callable[[Mapping[str, Any]], Ran],
        inputs: Mapping[str, Any],
        wrt: frozenset[str] | None,
        undo: list[Callable[[], None]],
    ) -> tuple[Any, Sequence[Backward]]:
        def leaf(value: Any) -> Any:
            return Scalar(float(value), is_leaf=True) if isinstance(value, Scalar | float) else value

        ran = program(
            {
                name: exchanged(value, leaf, undo) if wrt is None or name in wrt else value
                for name, value in inputs.items()
            }
        )
        return ran.result, [differentiate(root, ran.captures) for root in ran.roots]

    def release(self) -> None:
        """A scalar is kept by whoever computes with it, and a tape keeps none."""


def differentiate(root: Root, captures: Sequence[Capture]) -> Backward:
    """One backward pass; what is captured has its gradient from it."""
    found = floats.gradients(root.output, 1.0 if root.cotangent is None else root.cotangent.number)
    position = {id(capture.scalar): at for at, capture in enumerate(captures)}
    outcomes = [_outcome(capture, found.get(id(capture.scalar)), position) for capture in captures]
    order = [position[id(scalar)] for scalar in floats.ordered(root.output) if id(scalar) in position]
    return Backward(outcomes, tuple(order))


def _outcome(capture: Capture, gradient: float | None, position: Mapping[int, int]) -> Outcome:
    edges = tuple(bp.Edge(at) for at in _sources(capture.scalar, position))
    if capture.status is not bp.GradStatus.OK:
        return Outcome(capture.status, capture.why, capture.scalar)
    if gradient is None:
        return Outcome(bp.GradStatus.NOT_CONNECTED, Reason("no_path"), capture.scalar, inputs=edges)
    return Outcome(bp.GradStatus.OK, None, capture.scalar, Scalar(gradient), edges)


def _sources(scalar: Scalar, position: Mapping[int, int]) -> list[int]:
    """The captures that flow into a scalar, with no other in between."""
    found: dict[int, None] = {}
    pending = [parent for parent, _ in scalar.parents]
    while pending:
        one = pending.pop()
        if id(one) in position:
            found[position[id(one)]] = None
        else:
            pending += [parent for parent, _ in one.parents]
    return sorted(found)


class FloatBackend(Backend):
    """Scalars as a framework without models, blocks, graphs, checks and second derivatives."""

    name = "floats"
    title = "floats"
    arrays = FloatArrays()

    def tape(self, options: Options) -> FloatTape:
        return FloatTape()


BACKEND: Backend = FloatBackend()
