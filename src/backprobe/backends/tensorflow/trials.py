"""Runs a program again for trials, in eager TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.tensorflow.tensors import is_eager, is_tensor, plain, variable_of
from backprobe.backends.trials import TrialRun, Trials
from backprobe.record.containers import leaves


class TensorflowTrials(Trials):
    """Implements ``Trials`` for TensorFlow."""

    def given(self, leaf: Any) -> Any:
        if isinstance(leaf, numpy.ndarray | numpy.generic) and leaf.dtype.kind in "iubfcV":
            return tf.constant(leaf)
        return tf.constant(leaf, tf.float32) if isinstance(leaf, float) else leaf

    def is_varied(self, leaf: Any) -> bool:
        return is_tensor(leaf) and bool(plain(leaf).dtype.is_floating)

    def alike(self, leaf: Any, numbers: Any) -> Any:
        made = tf.cast(tf.constant(numpy.reshape(numbers, leaf.shape)), plain(leaf).dtype)
        return made if variable_of(leaf) is None else tf.Variable(made, trainable=leaf.trainable)

    def total(self, result: Any) -> Any:
        return tf.add_n([tf.reduce_sum(one) for one in floating(result)])

    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TrialRun:
        varied = [leaf for _, leaf in leaves((tuple(args), dict(kwargs))) if self.is_varied(leaf)]
        with tf.GradientTape() as tape:
            for tensor in varied:
                tape.watch(tensor)
            results = floating(function(*args, **kwargs))
        known = {id(one) for one in varied}
        wanted = [*varied, *(one for one in tape.watched_variables() if id(one) not in known)]
        gradients = tape.gradient(results, wanted) if results else []
        return TrialRun(results, [tf.convert_to_tensor(one) for one in gradients if one is not None])


def floating(result: Any) -> list[Any]:
    """Return the floating-point tensors in the value that a program returned."""
    return [leaf for _, leaf in leaves(result) if is_eager(leaf) and leaf.dtype.is_floating]
