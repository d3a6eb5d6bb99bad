"""Steps of an optimizer that change almost nothing, for example because the learning rate is below the dtype's
rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from backprobe.backends.tensorflow.private import unrecorded
from backprobe.backends.tensorflow.tensors import is_eager, number_of, read, variable_of
from backprobe.backends.useless.steps import SampledStep, SampledSteps, spread
from backprobe.backends.user_lines import users_line

Sampled = tuple[Any, Any, Any]
"""A Variable, some of its numbers, and which of these numbers have a nonzero gradient."""


class TensorflowSteps(SampledSteps):
    """The steps of all optimizers of a TensorFlow program."""

    def before(self, pairs: Sequence[tuple[Any, Any]]) -> list[Sampled]:
        """Sample the Variables before a step updates them with these gradients."""
        found = []
        for given, gradient in pairs:
            variable = variable_of(given)
            if variable is not None and is_eager(gradient) and variable.shape == gradient.shape:
                found.append((variable, _sample(unrecorded(read, variable)).copy(), _sample(gradient) != 0))
        return found

    def after(self, optimizer: Any, sampled: Sequence[Sampled], rate: Any) -> None:
        """Compare the samples with the Variables after the step, unless the learning rate is unknown or 0."""
        number = number_of(rate)
        if not sampled or not number:
            return
        moved = sum(int(((_sample(unrecorded(read, one)) != was) & live).sum()) for one, was, live in sampled)
        count = sum(int(live.sum()) for _, _, live in sampled)
        dtype = sampled[0][0].dtype.name
        self.made(optimizer, SampledStep(number, moved, count, dtype, users_line(sys._getframe(1))))


def _sample(tensor: Any) -> Any:
    # Return some of the elements, spread over the whole tensor.
    flat = tf.reshape(tensor, [-1])
    return flat[spread(int(flat.shape[0]))].numpy()
