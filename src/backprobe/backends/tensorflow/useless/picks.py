"""Numbers that are taken for log-probabilities: of each row one is picked, and minus their mean or sum is the loss.

How they are picked does not matter, by an index or times a one-hot row. All that follows must be linear and of these
numbers alone: what is added from the same model, as a logsumexp, makes a loss of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.cuts import Place, users_place
from backprobe.backends.tensorflow.private import identity_of, shape_of
from backprobe.backends.tensorflow.useless.outcomes import MOST, Operation, is_float, near, wide


@dataclass(frozen=True)
class Pick:
    """Picked numbers times a factor, and the line that picked them."""

    place: Place | None
    factor: float
    is_masked: bool = False  # are the others there, times 0?


class Picks:
    """Those of one iteration, by the number of what is computed from them alone."""

    def __init__(self, is_trained: Callable[[int], bool]) -> None:
        self.is_trained = is_trained
        self.known: dict[int, Pick] = {}

    def look(self, one: Operation, numbers: Sequence[int]) -> None:
        """An operation has run on operands of these numbers."""
        made = one.outputs[0]
        if len(one.outputs) != 1 or not is_float(made) or made.dtype.is_complex:
            return
        at = next((at for at, number in enumerate(numbers) if number in self.known), None)
        if at is not None:
            self._follow(one, numbers, at)
        elif len(numbers) > 1 and is_float(one.inputs[0]) and any(map(self.is_trained, numbers)):
            shape, result = shape_of(one.inputs[0]), shape_of(made)
            is_fit = len(shape) > 1 and shape[-1] > 1 and 2 * shape[-1] <= prod(shape) <= MOST
            if is_fit and result in (shape[:-1], (*shape[:-1], 1)) and not one.is_reduction():
                self._by_index(one, numbers)
            elif is_fit and result == shape and len(numbers) == 2 and shape == shape_of(one.inputs[1]):
                self._by_mask(one, numbers)

    def _by_index(self, one: Operation, numbers: Sequence[int]) -> None:
        if len(one.floats) > 1 or not self.is_trained(numbers[0]):
            return
        x, made = wide(one.inputs[0]), wide(one.outputs[0])
        is_there = made.reshape(*x.shape[:-1], 1) == x
        is_picked = bool(is_there.any(-1).all()) and len({*is_there.argmax(-1).flat}) > 1
        if is_picked and _is_unnormalised(x, near(one.inputs[0])):
            self.known[identity_of(one.outputs[0])] = Pick(users_place(), 1.0)

    def _by_mask(self, one: Operation, numbers: Sequence[int]) -> None:
        trained = [at for at, number in enumerate(numbers) if self.is_trained(number)]
        if len(trained) != 1 or not all(map(is_float, one.inputs)):
            return
        x, mask = one.inputs[trained[0]], wide(one.inputs[1 - trained[0]])
        if not ((mask == 0) | (mask == 1)).all() or (mask.sum(-1) != 1).any() or len({*mask.argmax(-1).flat}) < 2:
            return
        if bool((wide(one.outputs[0]) == mask * wide(x)).all()) and _is_unnormalised(wide(x), near(x)):
            self.known[identity_of(one.outputs[0])] = Pick(users_place(), 1.0, is_masked=True)

    def _follow(self, one: Operation, numbers: Sequence[int], at: int) -> None:
        beside = [(number, given) for other, (number, given) in enumerate(zip(numbers, one.inputs, strict=True))
                  if other != at and is_float(given)]  # fmt: skip
        if any(self.is_trained(number) or prod(shape_of(given)) > 1 for number, given in beside):
            return
        known, (given, made) = self.known[numbers[at]], (one.inputs[at], one.outputs[0])
        if known.is_masked and prod(shape_of(made)) == prod(shape_of(given)):
            return
        passed = private.gradients_of(one.kind, one.attrs, one.inputs, one.outputs, [tf.ones_like(made)])
        passed = passed if isinstance(passed, list | tuple) else [passed]
        if passed[at] is None:
            return
        slopes = wide(tf.convert_to_tensor(passed[at]))
        slope, far = float(slopes.flat[0]), near(made)
        total = (slopes * wide(given)).sum()
        is_sum = abs(total - wide(made).sum()) <= far * abs(total) + far
        is_shifted = slopes.size == 1 and abs(slope - 1) <= far
        if bool((abs(slopes - slope) <= far * abs(slope)).all()) and (is_sum or is_shifted):
            self.known[identity_of(made)] = Pick(known.place, known.factor * slope)

    def losses(self, targets: Sequence[int]) -> list[Place | None]:
        """Where the numbers were picked of which these targets are minus the sum or mean."""
        found = [self.known[target] for target in targets if target in self.known]
        return [one.place for one in found if one.factor < 0 and not one.is_masked]


def _is_unnormalised(x: Any, far: float) -> bool:
    # Are the rows neither log-probabilities nor probabilities?
    largest = x.max(-1, keepdims=True)
    sums = largest[..., 0] + numpy.log(numpy.exp(x - largest).sum(-1))
    is_any = (abs(sums) <= 10 * far) | ((x >= 0).all(-1) & (abs(x.sum(-1) - 1) <= 10 * far))
    return bool(numpy.isfinite(x).all() and not is_any.any())
