"""What counts as a tensor, and tensors as data: their description, numbers and bytes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.facts import Description, Summary
from backprobe.backends.immutable import HostArrays
from backprobe.backends.numpy import DTYPES
from backprobe.errors import NotSaved

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


class TensorflowArrays(HostArrays):
    """Showing and saving TensorFlow's tensors."""

    name = "tensorflow"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, tf.Tensor) or variable_of(value) is not None

    def describe(self, tensor: Any) -> Description:
        return describe(tensor)

    def to_host(self, tensor: Any) -> Any:
        plain = tensor if isinstance(tensor, tf.Tensor) else read(variable_of(tensor))
        return numpy.asarray(plain.numpy())

    def from_host(self, array: Any, dtype: str) -> Any:
        return tf.constant(array, dtype=tf.as_dtype(dtype))

    def summarize(self, tensor: Any) -> Summary | None:
        return super().summarize(tensor) if describe(tensor).dtype in DTYPES else None

    def to_text(self, tensor: Any) -> str:
        if describe(tensor).dtype in DTYPES:
            return super().to_text(tensor)
        return str(self.to_host(tensor).tolist()) if describe(tensor).dtype == "string" else "(not shown)"

    def encode(self, tensor: Any, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        dtype = describe(tensor).dtype
        if dtype not in DTYPES:
            raise NotSaved(f"a {dtype} tensor cannot be saved", asked="rec.save(path)", found=f"a {dtype} tensor")
        return super().encode(tensor, blobs, seen)

    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Any:
        return super().decode(layout, blobs)
