"""Finds numbers that a TensorFlow program treats as log-probabilities although they are not log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.private import identity_of, shape_of
from backprobe.backends.tensorflow.useless.outcomes import Operation, is_float, near, wide
from backprobe.backends.tensorflow.useless.spots import Spot, spot
from backprobe.backends.useless import picks
from backprobe.backends.useless.shapes import Shape


class Picks(picks.Picks[Operation]):
    """The picked numbers of one iteration."""

    def __init__(self, is_trained: Callable[[int], bool]) -> None:
        super().__init__()
        self.trained = is_trained

    def look(self, one: Operation, numbers: Sequence[int]) -> None:
        made = one.outputs[0]
        if len(one.outputs) == 1 and is_float(made) and not made.dtype.is_complex:
            super().look(one, numbers)

    def given(self, one: Operation) -> Sequence[Any]:
        return one.inputs

    def made(self, one: Operation) -> Any:
        return one.outputs[0]

    def number(self, one: Operation) -> int:
        return identity_of(one.outputs[0])

    def place(self, one: Operation) -> Spot | None:
        return spot()

    def is_reduction(self, one: Operation) -> bool:
        return one.is_reduction()

    def slopes(self, one: Operation, at: int) -> Any:
        ones = tf.ones_like(one.outputs[0])
        passed = private.gradients_of(one.kind, one.attrs, one.inputs, one.outputs, [ones])
        passed = passed if isinstance(passed, list | tuple) else [passed]
        return None if passed[at] is None else wide(tf.convert_to_tensor(passed[at]))

    def is_trained(self, number: int) -> bool:
        return self.trained(number)

    def is_float(self, array: Any) -> bool:
        return is_float(array)

    def shape(self, array: Any) -> Shape:
        return tuple(shape_of(array))

    def wide(self, array: Any) -> Any:
        return wide(array)

    def near(self, array: Any) -> float:
        return near(array)
