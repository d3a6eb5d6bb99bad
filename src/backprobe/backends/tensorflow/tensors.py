"""Recognises and describes tensors and Variables of TensorFlow, and decides which can be differentiated."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.facts import Description
from backprobe.backends.tensorflow import private

DIFFERENTIABLE = frozenset({tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128})
"""The dtypes for which TensorFlow has derivatives."""

NUMBERS_DIFFERENTIABLE = frozenset(dtype.as_datatype_enum for dtype in DIFFERENTIABLE)
"""TensorFlow's enum values of these dtypes, which eager tensors also provide. Comparing them is faster, because dtypes
are hashed and compared in Python.
"""

VARIABLE = tf.Variable


def is_eager(value: Any) -> bool:
    """Is the value a tensor that has numbers, rather than a part of a graph?"""
    return type(value) is private.EagerTensor or (isinstance(value, tf.Tensor) and not tf.is_symbolic_tensor(value))


def variable_of(value: Any) -> Any:
    """Return the ``tf.Variable`` inside a Variable of TensorFlow or Keras; None for any other value."""
    kind = type(value)
    if kind is private.EagerTensor:
        return None
    if VARIABLE in kind.__mro__:  # isinstance would be slow: it calls the metaclass, in Python
        return value
    keras = sys.modules.get("keras")
    of_keras = getattr(keras, "Variable", None)
    if of_keras is not None and isinstance(value, of_keras):
        held = value._value  # not ``value``, which would be cast under mixed precision
        return held if VARIABLE in type(held).__mro__ else None
    return None


def plain(value: Any) -> Any:
    """Return a tensor itself, or the ``tf.Variable`` inside a Variable; None for any other value."""
    return value if isinstance(value, tf.Tensor) else variable_of(value)


OPENED = {
    tf.SparseTensor: ("values", "indices"),
    tf.IndexedSlices: ("values", "indices"),
    tf.RaggedTensor: ("flat_values",),
}
"""The types of sparse and ragged tensors, and the fields that hold their tensors."""


def opened(value: Any) -> Any:
    """Return a sparse or ragged tensor as a dictionary of tensors; any other value is returned unchanged."""
    return {name: getattr(value, name) for name in OPENED[type(value)]} if type(value) in OPENED else value


def is_tensor(value: Any) -> bool:
    """Is the value a tensor or Variable that has numbers? In a graph it has numbers only inside sessions, and reading
    it would add an operation to the graph.
    """
    if is_eager(value):
        return True
    variable = variable_of(value)
    return variable is not None and is_eager(private.handle_of(variable))


def in_session(value: Any) -> Any:
    """Return the tensor if the value is a tensor of a session's graph, or the handle if it is a Variable there; None
    otherwise.
    """
    variable = None if type(value) is private.SymbolicTensor else variable_of(value)
    tensor = value if variable is None else private.handle_of(variable)
    is_symbolic = type(tensor) is private.SymbolicTensor
    return tensor if is_symbolic and private.is_for_sessions(tensor.graph) else None


def identity(value: Any) -> int:
    """Return the number of a tensor, or of the handle that all Python objects of a Variable share."""
    variable = variable_of(value)
    return private.identity_of(value if variable is None else private.handle_of(variable))


def read(variable: Any) -> Any:
    """Return the current value of a Variable, unaffected by later writes. This read does not make a tape watch the
    Variable. A tape that watches the Variable already records the read.
    """
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def number_of(rate: Any) -> float | None:
    """Return a learning rate as a number; None if it is not a single floating-point number."""
    variable = variable_of(rate)
    held = rate if variable is None else private.unrecorded(read, variable)
    number = held.numpy() if is_eager(held) else held
    return float(number) if numpy.ndim(number) == 0 and isinstance(number, float | numpy.floating) else None


def describe(tensor: Any) -> Description:
    """Return the shape, the dtype's name, and the device without its job and task.

    >>> describe(tf.zeros((2, 3)))
    Description(shape=(2, 3), dtype='float32', device='cpu:0')
    """
    held = plain(tensor)
    if type(held) is private.EagerTensor:
        shape, name = private.shape_of(held), dtype_name(private.dtype_number(held))
    else:
        shape = tuple(held.shape) if held.shape.is_fully_defined() else None  # in a graph the shape may be unknown
        name = held.dtype.base_dtype.name
    return Description(shape, name, _device_name(held.device))


@lru_cache(256)
def dtype_name(number: int) -> str:
    return str(tf.as_dtype(number).name)


@lru_cache(256)
def _device_name(device: str) -> str | None:
    return str(device).rpartition("device:")[2].lower() or None


def numbers_of(gradient: Any) -> Any:
    """Return the tensor with the numbers of a gradient: of a sparse one, its rows; of any other one, itself."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def is_zero(gradient: Any) -> bool:
    """Does the gradient have numbers, all of which are 0? No operation is run for this test."""
    return _any(gradient) is False


def is_other_than_zero(gradient: Any) -> bool:
    return bool(_any(gradient))


def _any(gradient: Any) -> bool | None:
    # Is any number other than 0? None if there are no numbers, or if they are not available.
    held = numbers_of(gradient)
    return bool(held.numpy().any()) if is_eager(held) and held.shape.num_elements() else None


def is_floating(dtype: Any) -> bool:
    return bool(dtype.is_floating or dtype.is_complex)


def is_differentiable(tensor: Any) -> bool:
    if type(tensor) is private.EagerTensor:
        return private.dtype_number(tensor) in NUMBERS_DIFFERENTIABLE
    return tensor.dtype in DIFFERENTIABLE
