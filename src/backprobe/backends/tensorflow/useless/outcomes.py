"""Properties of operations, found by running them again on other numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
import tensorflow as tf

from backprobe.backends.immutable import rounding
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.operation_log import RESOURCE
from backprobe.backends.tensorflow.private import dtype_number, shape_of
from backprobe.backends.tensorflow.tensors import NUMBERS_DIFFERENTIABLE
from backprobe.backends.useless import distributions
from backprobe.backends.useless.constants import is_constant
from backprobe.backends.useless.distributions import MOST


class Operation(NamedTuple):
    """An operation that has run: its kind, inputs, attributes and outputs."""

    kind: str
    inputs: Sequence[Any]
    attrs: Sequence[Any]
    outputs: Sequence[Any]

    @property
    def floats(self) -> list[Any]:
        """The inputs that can be differentiated."""
        return [one for one in self.inputs if is_float(one)]

    def keeps_dimensions(self) -> bool:
        """Does the operation keep the dimensions that it reduces?"""
        attrs = self.attrs or ()
        return any(name == "keep_dims" and bool(value) for name, value in zip(attrs[::2], attrs[1::2], strict=True))

    def is_reduction(self) -> bool:
        """Does the operation reduce a single input along dimensions?"""
        return "keep_dims" in (self.attrs or ())[::2] and len(self.floats) == 1

    def is_constant(self) -> bool:
        """Does the operation return the same result for any numbers, such as softmax of single elements? False if that
        cannot be tested.
        """
        if (
            private.is_stateful(self.kind)
            or len(self.outputs) != 1
            or not all(map(is_float, (*self.inputs, *self.outputs)))
        ):
            return False
        if any(one.shape.num_elements() > MOST for one in [*self.inputs, *self.outputs]):
            return False

        def make(given: Sequence[Any]) -> Any:
            given = [tf.constant(numbers, one.dtype) for numbers, one in zip(given, self.inputs, strict=True)]
            return wide(private.executed(self.kind, given, self.attrs))

        try:
            unit = rounding(self.outputs[0].dtype.as_numpy_dtype)
            return is_constant(make, [*map(shape_of, self.inputs)], unit)
        except (tf.errors.OpError, ValueError, TypeError):
            return False


def is_float(tensor: Any) -> bool:
    return dtype_number(tensor) in NUMBERS_DIFFERENTIABLE


class Elementwise:
    """Decides whether operations of a kind compute each element of the result from one element of each input.

    The operation is run on random numbers, and once more on the same numbers, flattened and in reverse order.
    """

    def __init__(self) -> None:
        self.known: dict[str, bool] = {}

    def __call__(self, one: Operation) -> bool:
        """Return whether operations of this kind are elementwise, which the first of them decides. Operations that are
        not run again, such as large ones and random generators, count as not elementwise.
        """
        known = self.known.get(one.kind)
        if known is None:
            known = self.known[one.kind] = self._is(one)
        return known

    def _is(self, one: Operation) -> bool:
        made = one.outputs[0]
        if len(one.outputs) != 1 or not one.floats or any(dtype_number(given) == RESOURCE for given in one.inputs):
            return False
        if private.is_stateful(one.kind) or not 1 < made.shape.num_elements() <= MOST:
            return False
        drawn = numpy.random.default_rng(0)
        first, second = list[Any](), list[Any]()
        for given in one.inputs:
            numbers = drawn.uniform(0.1, 0.9, shape_of(given)) if is_float(given) else given.numpy()
            first.append(tf.constant(numbers, given.dtype))
            flat = numbers if numpy.ndim(numbers) == 0 else _flat(numbers, shape_of(made))
            if flat is None:
                return False
            second.append(tf.constant(flat, given.dtype))
        try:
            whole, flat = (private.executed(one.kind, each, one.attrs) for each in (first, second))
        except (tf.errors.OpError, ValueError, TypeError):
            return False
        wanted = wide(whole).reshape(-1)[::-1]
        return bool(flat.shape == wanted.shape and numpy.allclose(wide(flat), wanted, 1e-2, 1e-3, equal_nan=True))


def _flat(numbers: Any, shape: Sequence[int]) -> Any:
    # Return the elements of an input in the order of the flattened and reversed result; None if its shape cannot be
    # broadcast.
    try:
        return numpy.broadcast_to(numbers, shape).reshape(-1)[::-1]
    except ValueError:
        return None


def near(tensor: Any) -> float:
    return distributions.near_of(tensor.numpy())


def wide(tensor: Any) -> Any:
    """Return the tensor's numbers in double precision; complex numbers keep their precision."""
    numbers = tensor.numpy()
    return numbers if numpy.iscomplexobj(numbers) else numbers.astype(numpy.float64)
