"""TensorFlow's tensors and Variables: which values are, which can be differentiated, and their description."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Description

EPSILON = {tf.float16: 2.0**-10, tf.bfloat16: 2.0**-7, tf.float32: 2.0**-23, tf.float64: 2.0**-52,
           tf.complex64: 2.0**-23, tf.complex128: 2.0**-52}  # fmt: skip
"""The rounding of each dtype that TensorFlow differentiates."""


def is_eager(value: Any) -> bool:
    """Is it a tensor that has its numbers, and no part of a graph?"""
    return isinstance(value, tf.Tensor) and not tf.is_symbolic_tensor(value)


def variable_of(value: Any) -> Any:
    """The ``tf.Variable`` that a Variable of TensorFlow or Keras is; None for anything else."""
    if isinstance(value, tf.Variable):
        return value
    keras = sys.modules.get("keras")
    kind = getattr(keras, "Variable", None)
    if kind is not None and isinstance(value, kind):
        held = value._value  # the Variable itself: ``value`` would be cast under mixed precision
        return held if isinstance(held, tf.Variable) else None
    return None


def read(variable: Any) -> Any:
    """The value that a Variable has now, whatever is written to it later; a tape does not notice."""
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def describe(tensor: Any) -> Description:
    """Shape, dtype by its name, and the device without the job and task that it belongs to.

    >>> describe(tf.zeros((2, 3)))
    Description(shape=(2, 3), dtype='float32', device='cpu:0')
    """
    plain = tensor if isinstance(tensor, tf.Tensor) else variable_of(tensor)
    device = str(plain.device).rpartition("device:")[2].lower()
    return Description(tuple(plain.shape), plain.dtype.name, device or None)


def is_differentiable(tensor: Any) -> bool:
    """Has TensorFlow derivatives for this dtype?"""
    return tensor.dtype in EPSILON
