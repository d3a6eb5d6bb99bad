"""TensorFlow's tensors and Variables: which values are, which can be differentiated, and their description."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import tensorflow as tf

from backprobe.backends.facts import Description
from backprobe.backends.tensorflow import private

DIFFERENTIABLE = frozenset({tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128})
"""The dtypes that TensorFlow has derivatives for."""

NUMBERS_DIFFERENTIABLE = frozenset(dtype.as_datatype_enum for dtype in DIFFERENTIABLE)
"""The same as the numbers that eager tensors have for them: a dtype is hashed and compared in Python."""

VARIABLE = tf.Variable


def is_eager(value: Any) -> bool:
    """Is it a tensor that has its numbers, and no part of a graph?"""
    return type(value) is private.EagerTensor or (isinstance(value, tf.Tensor) and not tf.is_symbolic_tensor(value))


def variable_of(value: Any) -> Any:
    """The ``tf.Variable`` that a Variable of TensorFlow or Keras is; None for anything else."""
    kind = type(value)
    if kind is private.EagerTensor:
        return None
    if VARIABLE in kind.__mro__:  # isinstance would ask its metaclass, in Python
        return value
    keras = sys.modules.get("keras")
    of_keras = getattr(keras, "Variable", None)
    if of_keras is not None and isinstance(value, of_keras):
        held = value._value  # the Variable itself: ``value`` would be cast under mixed precision
        return held if VARIABLE in type(held).__mro__ else None
    return None


def plain(value: Any) -> Any:
    """A tensor itself, or the ``tf.Variable`` that a Variable is; None for anything else."""
    return value if isinstance(value, tf.Tensor) else variable_of(value)


OPENED = {
    tf.SparseTensor: ("values", "indices"),
    tf.IndexedSlices: ("values", "indices"),
    tf.RaggedTensor: ("flat_values",),
}
"""Sparse and ragged tensors, and what they hold."""


def opened(value: Any) -> Any:
    """A sparse or ragged tensor as a dictionary of tensors; anything else as it is."""
    return {name: getattr(value, name) for name in OPENED[type(value)]} if type(value) in OPENED else value


def is_tensor(value: Any) -> bool:
    """Is it a tensor that has its numbers, or a Variable that has? One of a graph has them in sessions alone, and would
    be read by a node that nobody asked for.
    """
    if is_eager(value):
        return True
    variable = variable_of(value)
    return variable is not None and is_eager(private.handle_of(variable))


def in_session(value: Any) -> Any:
    """The tensor of a graph for sessions that a value is, of a Variable its handle; None for any other value."""
    variable = None if type(value) is private.SymbolicTensor else variable_of(value)
    tensor = value if variable is None else private.handle_of(variable)
    is_symbolic = type(tensor) is private.SymbolicTensor
    return tensor if is_symbolic and private.is_for_sessions(tensor.graph) else None


def identity(value: Any) -> int:
    """The number of a tensor, or of the handle that every Python object of a Variable shares."""
    variable = variable_of(value)
    return private.identity_of(value if variable is None else private.handle_of(variable))


def read(variable: Any) -> Any:
    """The value that a Variable has now, whatever is written to it later; a tape does not notice."""
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def describe(tensor: Any) -> Description:
    """Shape, dtype by its name, and the device without the job and task that it belongs to.

    >>> describe(tf.zeros((2, 3)))
    Description(shape=(2, 3), dtype='float32', device='cpu:0')
    """
    held = plain(tensor)
    if type(held) is private.EagerTensor:
        shape, name = private.shape_of(held), dtype_name(private.dtype_number(held))
    else:
        shape = tuple(held.shape) if held.shape.is_fully_defined() else None  # which a graph may leave open
        name = held.dtype.base_dtype.name
    return Description(shape, name, _device_name(held.device))


@lru_cache(256)
def dtype_name(number: int) -> str:
    return str(tf.as_dtype(number).name)


@lru_cache(256)
def _device_name(device: str) -> str | None:
    return str(device).rpartition("device:")[2].lower() or None


def is_zero(gradient: Any) -> bool:
    """Has it numbers, and are all of them 0? No operation runs for that."""
    return _any(gradient) is False


def is_other_than_zero(gradient: Any) -> bool:
    return bool(_any(gradient))


def _any(gradient: Any) -> bool | None:
    # Is any of its numbers other than 0? None where it has none, or they are not at hand.
    held = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return bool(held.numpy().any()) if is_eager(held) and held.shape.num_elements() else None


def is_floating(dtype: Any) -> bool:
    return bool(dtype.is_floating or dtype.is_complex)


def is_differentiable(tensor: Any) -> bool:
    if type(tensor) is private.EagerTensor:
        return private.dtype_number(tensor) in NUMBERS_DIFFERENTIABLE
    return tensor.dtype in DIFFERENTIABLE
