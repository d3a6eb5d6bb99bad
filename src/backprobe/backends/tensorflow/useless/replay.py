"""Goes backward through recorded operations to find where a gradient vanishes: exactly 0 after one operation, or
cancelled.

The operations between a loss and some Variables are differentiated again, one after another, by the functions that a
gradient tape calls. This shows what each operation receives, what it passes to each input, and what it would pass on if
it received other numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.immutable import rounding
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.private import identity_of
from backprobe.backends.tensorflow.tensors import is_zero
from backprobe.backends.tensorflow.useless.outcomes import Operation, is_float
from backprobe.backends.tensorflow.useless.spots import Spot
from backprobe.backends.useless import CANCELS, FLAT, TIMES_ZERO, End
from backprobe.backends.useless.ways import BY_CHANCE, FAINT, Sum, Ways, is_rounding


@dataclass(frozen=True, eq=False)
class RecordedOperation:
    """An operation that depends on a Variable: the operation, the numbers of its inputs, its line, and its custom
    gradient function, if it has one.
    """

    operation: Operation
    numbers: Sequence[int]
    place: Spot | None
    own_gradient: Callable[..., Any] | None = None

    def gradients(self, given: Sequence[Any], inputs: Sequence[Any] | None = None) -> list[Any]:
        """Return the gradients of the inputs, given the gradients of the outputs. ``inputs`` replaces the recorded
        inputs, but not for a custom gradient function.
        """
        if self.own_gradient is not None:
            found = self.own_gradient(*given)
        else:
            one = self.operation
            found = private.gradients_of(
                one.kind, one.attrs, one.inputs if inputs is None else inputs, one.outputs, given
            )
        return [*found] if isinstance(found, list | tuple) else [found]


@dataclass
class SeenByBackward:
    """The gradients that an operation received during backward, and what it passed on."""

    given: Sequence[Any] = ()
    came: bool = False  # has the operation received a nonzero gradient?
    gave: dict[int, bool] = field(default_factory=dict)  # by input: is the gradient 0, or only rounding error?
    # places where only rounding errors remain, because the operation removes exactly the gradient that arrived
    hidden: set[int] = field(default_factory=set)


class OperationReplay(Ways[int, RecordedOperation]):
    """One backward pass over the recorded operations, given in the order in which they ran. It leads from targets,
    given with their gradients, to Variables. Both are identified by number.
    """

    def __init__(
        self,
        recorded: Sequence[RecordedOperation],
        targets: Mapping[int, Any],
        leaves: Collection[int],
        is_trained: Callable[[Any], bool],
    ) -> None:
        self.recorded, self.targets, self.leaves, self.is_trained = recorded, targets, leaves, is_trained
        self.order = {one: at for at, one in enumerate(recorded)}
        self.makers = {identity_of(made): one for one in recorded for made in one.operation.outputs}
        self.seen: dict[RecordedOperation, SeenByBackward] = {}
        self.sums: dict[int, Sum] = {}
        self.gradients = dict(targets)
        for one in reversed(recorded):
            self._pass(one)

    def _pass(self, one: RecordedOperation) -> None:
        outputs = one.operation.outputs
        numbers = [number if self.makers[number] is one else None for number in map(identity_of, outputs)]
        given = [self.gradients.get(number) if number is not None else None for number in numbers]
        if all(each is None for each in given):
            return
        given = [
            tf.zeros_like(made) if each is None and is_float(made) else each
            for each, made in zip(given, outputs, strict=True)
        ]
        seen = self.seen[one] = SeenByBackward(given, any(not is_zero(each) for each in given if each is not None))
        for at, (number, gradient) in enumerate(zip(one.numbers, one.gradients(given), strict=False)):
            if gradient is None or not (number in self.makers or number in self.leaves):
                continue
            gradient, is_nothing = tf.convert_to_tensor(gradient), is_zero(gradient)
            seen.gave[at] = is_nothing
            if seen.came and not is_nothing and self._takes_away(one, at, gradient):
                seen.gave[at] = True
                seen.hidden.add(at)
            if number in self.makers:
                self._add(number, gradient, one, counts=not is_nothing)

    def _takes_away(self, one: RecordedOperation, at: int, gradient: Any) -> bool:
        # Does the operation pass on only rounding?
        #
        # It does if it would pass on other numbers of the same size, because then it removes exactly these numbers. It
        # also does if it passes on only rounding for any numbers, as a softmax of single elements does on some
        # processors.
        given = [*filter(_is_gradient, self.seen[one].given)]
        size, largest = math.hypot(*map(_norm, given)), max(each.shape.num_elements() for each in given)
        if one.own_gradient is not None or gradient.shape.num_elements() < largest or _norm(gradient) > FAINT * size:
            return False
        drawn = numpy.random.default_rng(0)
        others = [_drawn_like(each, drawn, True) for each in self.seen[one].given]
        passed = one.gradients(others)[at]
        gain = _norm(tf.convert_to_tensor(passed)) / math.hypot(*map(_norm, filter(_is_gradient, others)))
        if is_rounding(_norm(gradient), unit(gradient), gain * size):
            return True
        return is_rounding(gain, unit(gradient), 1.0) and one.operation.is_constant()

    def _add(self, number: int, gradient: Any, one: RecordedOperation, counts: bool) -> None:
        if not counts:
            self.gradients.setdefault(number, gradient)
            return
        if number not in self.sums:
            self.sums[number] = Sum(_norm, unit)
            if number in self.targets:
                self.sums[number].total = self.targets[number]
        self.sums[number].add(gradient, self.order[one])
        self.gradients[number] = self.sums[number].total

    def endings(self, leaf: int) -> set[End]:
        """Return the places where the gradient vanishes on each path to a Variable; empty if part of it arrives."""
        return set() if leaf in self.arriving else self.ends(leaf, self.giving)

    @cached_property
    def arriving(self) -> set[int]:
        """The values that receive something other than 0 or rounding."""
        return self.reached(self.targets)

    @cached_property
    def giving(self) -> dict[int, list[tuple[RecordedOperation, int]]]:
        """By value: the operations that passed something to the value in backward, each with the place of the value
        among its inputs.
        """
        return self.users(self.seen)

    @cached_property
    def cancelled(self) -> set[int]:
        return {number for number, one in self.sums.items() if one.cancels and not self._is_read(number)}

    def maker(self, value: int) -> RecordedOperation | None:
        one = self.makers.get(value)
        return one if one in self.seen else None

    def made(self, step: RecordedOperation) -> list[int]:
        return [number for number in map(identity_of, step.operation.outputs) if self.makers[number] is step]

    def operands(self, step: RecordedOperation) -> dict[int, tuple[int, bool | None]]:
        return {at: (step.numbers[at], is_nothing) for at, is_nothing in self.seen[step].gave.items()}

    def has_come(self, step: RecordedOperation) -> bool:
        return self.seen[step].came

    def end(self, code: str, step: RecordedOperation) -> End:
        is_constant = code in (FLAT, CANCELS) and step.own_gradient is None and step.operation.is_constant()
        return End(code, _named(step), self.order[step], step.place, is_constant)

    def cancelling(self, value: int) -> End:
        last = self.recorded[self.sums[value].last]
        return End(CANCELS, _named(self.makers[value]), self.order[last], last.place)

    def _is_read(self, number: int) -> bool:
        # Is the tensor the value of a Variable?
        return all(each in self.leaves or each not in self.makers for each in self.makers[number].numbers) and any(
            each in self.leaves for each in self.makers[number].numbers
        )

    def why(self, step: RecordedOperation, at: int) -> str:
        """Find the reason by running the operation's gradient again with other numbers."""
        if step.own_gradient is not None:
            return BY_CHANCE
        if at in self.seen[step].hidden:
            return CANCELS
        drawn = numpy.random.default_rng(0)
        given, operands = [_drawn_like(each, drawn) for each in self.seen[step].given], step.operation.inputs
        if not self._passes_zero(step, at, given, operands):
            return BY_CHANCE  # the parts of a sum cancel
        code = FLAT
        for other, operand in enumerate(operands):
            if not is_float(operand) or (other == at and not is_zero(operand)):
                continue
            factor = tf.constant(drawn.uniform(0.5, 1.5, operand.shape), operand.dtype)
            instead = [[*operands[:other], one, *operands[other + 1 :]] for one in (factor, -factor)]
            if not any(self._passes_zero(step, at, given, inputs) for inputs in instead):
                if self.is_trained(operand):
                    return BY_CHANCE
                code = TIMES_ZERO
        return code

    def _passes_zero(self, one: RecordedOperation, at: int, given: Sequence[Any], inputs: Sequence[Any]) -> bool:
        passed = one.gradients(given, inputs)[at]
        return passed is None or is_zero(passed)


def _is_gradient(given: Any) -> bool:
    return given is not None and is_float(given)


def _drawn_like(gradient: Any, drawn: numpy.random.Generator, is_signed: bool = False) -> Any:
    # Return random numbers in the shape of a gradient; None and other values are returned unchanged.
    if not _is_gradient(gradient):
        return gradient
    numbers = drawn.normal(size=gradient.shape) if is_signed else drawn.uniform(0.5, 1.5, gradient.shape)
    return tf.constant(numbers, gradient.dtype)


def _named(one: RecordedOperation) -> str:
    # Return the name of an operation as a program may write it.
    name = one.operation.kind.removesuffix("V2").removesuffix("V3")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _norm(gradient: Any) -> float:
    numbers = gradient.numpy().reshape(-1)
    if numbers.dtype != numpy.float32 or not (size := float(numpy.linalg.norm(numbers))):
        # in single precision the squares of tiny numbers would be 0
        size = float(numpy.linalg.norm(numbers.astype(numpy.float64)))
    return size


def unit(tensor: Any) -> float:
    """Return the rounding unit of a tensor's dtype."""
    return rounding(tensor.dtype.as_numpy_dtype)
