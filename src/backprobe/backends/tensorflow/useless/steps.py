"""Steps of an optimizer that change next to nothing, as where the learning rate is below the rounding of the dtype."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy
import tensorflow as tf

from backprobe.backends.tensorflow.private import unrecorded
from backprobe.backends.tensorflow.tensors import is_eager, read, variable_of
from backprobe.backends.user_lines import users_line
from backprobe.record.source import Source

SAMPLE = 4096
"""The elements of each Variable that are compared."""
LEAST = 0.01
"""The share of the elements with a gradient that a step changes, or it counts as one without effect."""

Sampled = tuple[Any, Any, Any]
"""A Variable, some of its numbers, and for which of them there is a gradient other than 0."""


@dataclass(frozen=True)
class Step:
    """One step: how many of the sampled elements have a gradient, and how many of these it changed."""

    rate: float
    moved: int
    count: int
    dtype: str
    at: Source | None

    @property
    def share(self) -> float:
        return self.moved / self.count if self.count else 1.0

    @property
    def has_no_effect(self) -> bool:
        return self.count > 0 and self.share < LEAST


class Steps:
    """The steps of all optimizers."""

    def __init__(self) -> None:
        self.steps: WeakKeyDictionary[Any, list[Step]] = WeakKeyDictionary()

    def before(self, pairs: Sequence[tuple[Any, Any]]) -> list[Sampled]:
        """A step is about to write into these Variables, of these gradients."""
        found = []
        for given, gradient in pairs:
            variable = variable_of(given)
            if variable is not None and is_eager(gradient) and variable.shape == gradient.shape:
                found.append((variable, _sample(unrecorded(read, variable)).copy(), _sample(gradient) != 0))
        return found

    def after(self, optimizer: Any, sampled: Sequence[Sampled], rate: Any) -> None:
        """The step is over."""
        number = _number(rate)
        if not sampled or not number:
            return
        moved = sum(int(((_sample(unrecorded(read, one)) != was) & live).sum()) for one, was, live in sampled)
        count = sum(int(live.sum()) for _, _, live in sampled)
        step = Step(number, moved, count, sampled[0][0].dtype.name, users_line(sys._getframe(1)))
        self.steps.setdefault(optimizer, []).append(step)

    def without_effect(self) -> list[tuple[Any, Step]]:
        """The optimizers of which all steps so far had no effect, two at least, and whose learning rate does not grow
        as in a warm-up; with the last step.
        """
        return [
            (optimizer, steps[-1]) for optimizer, steps in self.steps.items()
            if len(steps) > 1 and steps[-1].rate <= steps[0].rate and all(one.has_no_effect for one in steps)
        ]  # fmt: skip

    @property
    def are_undecided(self) -> bool:
        """Has an optimizer made one step so far, and one without effect?"""
        return any(len(steps) == 1 and steps[0].has_no_effect for steps in self.steps.values())


def _sample(tensor: Any) -> Any:
    # Some of the elements, spread over all of the tensor.
    flat = tf.reshape(tensor, [-1])
    return flat[:: max(1, int(flat.shape[0]) // SAMPLE)].numpy()


def _number(rate: Any) -> float:
    # A learning rate; 0 where it is not one number.
    variable = variable_of(rate)
    held = unrecorded(read, variable) if variable is not None else rate
    number = held.numpy() if is_eager(held) else held
    return float(number) if numpy.ndim(number) == 0 and isinstance(number, float | numpy.floating) else 0.0
