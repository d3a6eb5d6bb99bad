"""Finds probabilities that are used as logits, and logits that are used as probabilities.

Operations are recognized by their numbers, not by their names. An operation counts as softmax or log-softmax if it
returns the same numbers, and as a cross-entropy of softmax if its gradient has the same numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from backprobe.backends.tensorflow.private import identity_of, shape_of
from backprobe.backends.tensorflow.useless.outcomes import Operation, is_float, near, wide
from backprobe.backends.tensorflow.useless.spots import Spot, spot
from backprobe.backends.useless.distributions import EXACT, MOST, axes, near_of

OUTSIDE = 0.25
"""Clipped numbers do not count as probabilities if more than this share of them lies outside [0, 1]."""
RECENT = 32
"""The number of clipped values that are remembered."""


class Distributions:
    """The distributions of one iteration. Tensors are identified by their numbers in the log."""

    def __init__(self, is_computed: Callable[[int], bool], is_undone: Callable[[str], bool]) -> None:
        self.is_computed = is_computed  # is a tensor computed from Variables, and not the value of one?
        self.is_undone = is_undone  # would compiled code drop this kind of operation here?
        self.twice: dict[int, tuple[str, Spot | None]] = {}  # by result: softmax applied to a distribution
        self.outside: dict[int, tuple[float, Spot | None]] = {}  # by result: the share of numbers outside [0, 1]
        self.again: set[int] = set()  # distributions to which softmax is applied
        self.kinds: dict[int, str] = {}  # by tensor: the kind of operation that computed it from one other tensor
        self.clipped: deque[tuple[int, Operation]] = deque(maxlen=RECENT)

    def look(self, one: Operation, numbers: Sequence[int]) -> None:
        """Called when an operation has run. ``numbers`` are the numbers of its input tensors in the log."""
        if not one.inputs or not is_float(one.inputs[0]) or not is_float(one.outputs[0]):
            return
        given, made = one.inputs[0], one.outputs[0]
        shape, result = shape_of(given), shape_of(made)
        if not shape or not self.is_computed(numbers[0]):
            return
        if len(numbers) == 1 and shape == result:
            if applied := _softmax_of_distribution(given, made):
                self.again.add(numbers[0])
                self.twice[identity_of(made)] = applied, spot()
            elif self.clipped:
                self._look_at_logarithm(one, numbers[0])
            self.kinds[identity_of(made)] = one.kind
        elif len(one.outputs) == 2 == len(numbers) and result == shape[:-1] and shape_of(one.outputs[1]) == shape:
            if _is_cross_entropy(given, one.inputs[1], one.outputs[1]) and self._is_run(numbers[0]):
                self.twice[identity_of(made)] = "a cross-entropy of softmax", spot()
        elif len(numbers) > 1 and shape == result and not any(map(shape_of, one.inputs[1:])):
            self.clipped.append((identity_of(made), one))

    def _is_run(self, number: int) -> bool:
        # Is softmax really applied to the distribution? In compiled code a Keras loss drops the softmax that made its
        # input, but it drops only one softmax.
        return number in self.again or number not in self.kinds or not self.is_undone(self.kinds[number])

    def _look_at_logarithm(self, one: Operation, number: int) -> None:
        made_by = dict(self.clipped)
        if number not in made_by or one.inputs[0].shape.num_elements() > MOST:
            return
        numbers = wide(one.inputs[0])
        is_logarithm = bool((numbers > 0).all()) and _is_near(wide(one.outputs[0]), numpy.log(numbers), EXACT)
        if not is_logarithm:
            return
        for given, bounds in _clipped_from(number, made_by):
            low, high = min(bounds), max(bounds)
            if 0 < low < 0.1 and 0.9 < high <= 1 and (wide(given).clip(low, high) == numbers).all():
                share = float(((wide(given) < -EXACT) | (wide(given) > 1 + EXACT)).mean())
                if share > OUTSIDE:
                    self.outside[identity_of(one.outputs[0])] = share, spot()


def _clipped_from(number: int, made_by: dict[int, Operation]) -> Iterator[tuple[Any, list[float]]]:
    # Yield the tensors from which a tensor may have been clipped, each with the bounds found up to there.
    bounds: list[float] = []
    while number in made_by:
        one = made_by[number]
        bounds += [float(each.numpy()) for each in one.inputs[1:] if is_float(each)]
        number = identity_of(one.inputs[0])
        if bounds:
            yield one.inputs[0], bounds


def _is_near(one: Any, other: Any, far: float) -> bool:
    return bool((abs(one - other) <= far * abs(other) + far * 1e-3).all())


def _axes(tensor: Any) -> list[int]:
    # Return the dimensions along which the tensor is a distribution.
    if tensor.dtype.is_complex or not 1 < tensor.shape.num_elements() <= MOST:
        return []
    numbers = tensor.numpy()
    return axes(numbers, near_of(numbers))


def _softmax(x: Any, axis: int) -> Any:
    powers = numpy.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _softmax_of_distribution(given: Any, made: Any) -> str:
    # Return "softmax" or "log-softmax" if this function was applied along a dimension along which the input is a
    # distribution; "" otherwise.
    for axis in _axes(given):
        wanted, y, far = _softmax(wide(given), axis), wide(made), 10 * near(given)
        for name, each in (("softmax", wanted), ("log-softmax", numpy.log(wanted))):
            if bool((abs(y - each) <= far * abs(each) + 1e-12).all()):
                return name
    return ""


def _is_cross_entropy(given: Any, labels: Any, gradient: Any) -> bool:
    # Is ``gradient`` that of a cross-entropy that applies softmax to an input that is already a distribution?
    last = len(shape_of(given)) - 1
    if last not in _axes(given):
        return False
    wanted, targets = _softmax(wide(given), last), labels.numpy()
    if not is_float(labels):
        classes = shape_of(given)[-1]
        targets = (targets[..., None] == numpy.arange(classes)).astype(numpy.float64)
    elif shape_of(labels) != shape_of(given):
        return False
    far = 10 * near(given)
    total = targets.astype(numpy.float64).sum(-1, keepdims=True)
    return any(bool((abs(wide(gradient) - (weight * wanted - targets)) <= far).all()) for weight in (1, total))
