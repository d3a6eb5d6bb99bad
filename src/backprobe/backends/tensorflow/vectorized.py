"""Per-sample gradients in TensorFlow, by ``tf.vectorized_map`` of a gradient tape."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.facts import Around
from backprobe.backends.tensorflow import tensors
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.layers import FOLLOWED
from backprobe.backends.tensorflow.tape import TensorflowTape
from backprobe.backends.vectorized import Gradients, SampleProgram, Vectorized


class TensorflowVectorized(Vectorized):
    """Implements ``Vectorized`` for TensorFlow."""

    title = "tf.vectorized_map"

    def gradients(self, program: SampleProgram, samples: Sequence[Any]) -> tuple[Any, Gradients]:
        shifts = {name: tf.zeros_like(value) for name, value in program.shifted.items()}
        variables = {name: tensors.variable_of(one) for name, one in program.variables.items()}

        def one(sample: Sequence[Any]) -> tuple[Any, Gradients]:
            FOLLOWED.add(tf.compat.v1.get_default_graph())
            with tf.GradientTape() as tape:
                tape.watch(shifts)
                loss = tf.reshape(program.loss([part[None] for part in sample], shifts), ())
            wanted = {**shifts, **variables}
            return loss, tape.gradient(loss, wanted, unconnected_gradients=tf.UnconnectedGradients.ZERO)

        logger = tf.get_logger()
        before = logger.level
        logger.setLevel("ERROR")  # each program is traced once, but TensorFlow warns about many traced functions
        try:
            losses, gradients = tf.vectorized_map(one, [*samples], fallback_to_while_loop=False)
        finally:
            logger.setLevel(before)
        return losses, gradients

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, tf.Tensor)

    def tensor(self, value: Any) -> Any:
        return tf.convert_to_tensor(value)

    def stacked(self, tensors: Sequence[Any]) -> Any:
        return tf.stack([*tensors])

    def joined(self, tensors: Sequence[Any]) -> Any:
        return tf.concat([*tensors], 0)

    def chosen(self, tensor: Any, at: Sequence[int]) -> Any:
        return tf.gather(tensor, numpy.asarray([*at], numpy.int32))

    def norms(self, gradients: Any) -> Any:
        return numpy.asarray(tf.norm(_rows(gradients), axis=1), numpy.float64)

    def dots(self, gradients: Any, other: Any) -> Any:
        other = tf.reshape(_rows(other[None]), [-1])
        return numpy.asarray(tf.math.real(tf.linalg.matvec(_rows(gradients), tf.math.conj(other))), numpy.float64)

    def summed(self, gradients: Any, weights: Any) -> Any:
        (at,) = weights.nonzero()
        return tf.tensordot(tf.constant(weights[at], gradients.dtype), self.chosen(gradients, at), axes=1)

    def scaled(self, gradients: Any, weights: Any) -> Any:
        factors = tf.constant(weights, gradients.dtype)
        return gradients * tf.reshape(factors, [-1, *[1] * (len(gradients.shape) - 1)])

    def mark(self, tensor: Any) -> Any:
        variable = tensors.variable_of(tensor)
        held = tensor if variable is None else tensors.read(variable)
        return hashlib.blake2b(held.numpy().tobytes()).digest()


def _rows(gradients: Any) -> Any:
    # Return one row for each sample, in a dtype that is wide enough for summing.
    rows = tf.reshape(gradients, [len(gradients), -1])
    return tf.cast(rows, tf.float32) if rows.dtype in (tf.float16, tf.bfloat16) else rows


def _identity(value: Any) -> int:
    # Return the number of a tensor. Symbolic tensors have none, so their ``id`` is returned instead.
    return id(value) if isinstance(value, tf.Tensor) and tf.is_symbolic_tensor(value) else tensors.identity(value)


class SymbolicTape(TensorflowTape):
    """The tape of a program that ``tf.vectorized_map`` traces. Its tensors are symbols without numbers."""

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, tf.Tensor) or tensors.is_tensor(value)

    def is_differentiated(self, value: Any) -> bool:
        return tensors.is_differentiable(tensors.plain(value))

    identity = staticmethod(_identity)

    def capture(self, tensor: Any, around: Callable[[], Around]) -> Capture:
        return Capture(tensor, None, self.identity(tensor))

    def as_tensor(self, new: Any, like: Any) -> Any:
        return new if isinstance(new, tf.Tensor) else super().as_tensor(new, like)

    def instead(self, new: Any, original: Any, is_given: bool) -> Any:
        return new

    def original_value(self, tensor: Any) -> Callable[[], Any]:
        return lambda: None
