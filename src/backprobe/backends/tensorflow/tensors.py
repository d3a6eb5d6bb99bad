"""TensorFlow's tensors and Variables: which values are, which can be differentiated, and their description."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Description
from backprobe.backends.tensorflow import private

DIFFERENTIABLE = frozenset({tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128})
"""The dtypes that TensorFlow has derivatives for."""


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


def plain(value: Any) -> Any:
    """A tensor itself, or the ``tf.Variable`` that a Variable is; None for anything else."""
    return value if isinstance(value, tf.Tensor) else variable_of(value)


def is_tensor(value: Any) -> bool:
    """Is it a tensor that has its numbers, or a Variable?"""
    return is_eager(value) or variable_of(value) is not None


def identity(value: Any) -> int:
    """The number of a tensor, or of the handle that every Python object of a Variable shares."""
    held = plain(value)
    return private.identity_of(held.handle if isinstance(held, tf.Variable) else held)


def read(variable: Any) -> Any:
    """The value that a Variable has now, whatever is written to it later; a tape does not notice."""
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def describe(tensor: Any) -> Description:
    """Shape, dtype by its name, and the device without the job and task that it belongs to.

    >>> describe(tf.zeros((2, 3)))
    Description(shape=(2, 3), dtype='float32', device='cpu:0')
    """
    held = plain(tensor)
    device = str(held.device).rpartition("device:")[2].lower()
    return Description(tuple(held.shape), held.dtype.name, device or None)


def is_floating(dtype: Any) -> bool:
    return bool(dtype.is_floating or dtype.is_complex)


def is_differentiable(tensor: Any) -> bool:
    return tensor.dtype in DIFFERENTIABLE
