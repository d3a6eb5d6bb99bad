"""Varies TensorFlow's tensors, Variables and Keras models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.moved import moved
from backprobe.backends.tensorflow.layers import is_layer
from backprobe.backends.tensorflow.tensors import is_floating, is_tensor, plain, variable_of
from backprobe.backends.variations import Variation, Variations, no_dtype
from backprobe.errors import Unsupported


class TensorflowVariations(Variations):
    """Implements ``Variations`` for TensorFlow. A Variable, including those of a model, holds other numbers until it is
    restored.
    """

    def varied(self, value: Any, variation: Variation, number: int, undo: list[Callable[[], None]]) -> Any:
        if is_layer(value):
            for at, variable in enumerate(value.variables):
                self.varied(variable, variation, 1000 * number + at, undo)
            return value
        variable = variable_of(value)
        if variable is not None:
            return _assigned(value, variable, variation, number, undo)
        if isinstance(value, numpy.ndarray) and value.dtype.kind == "f":
            value = tf.constant(value)
        if not is_tensor(value) or not is_floating(plain(value).dtype):
            return None
        cast = tf.cast(value, _dtype(variation.dtype)) if variation.dtype is not None else tf.identity(value)
        return tf.constant(moved(cast.numpy(), variation.seed, number), cast.dtype)


def _assigned(value: Any, variable: Any, variation: Variation, number: int, undo: list[Callable[[], None]]) -> Any:
    if not is_floating(variable.dtype):
        return None
    if variation.dtype is not None:
        raise Unsupported(
            "a Variable keeps its dtype",
            asked=f"precision={variation.dtype!r}",
            found=f"a Variable of {variable.dtype.name}",
            next="noise=[...] of bp.diff, with recordings of the model made in the lower precision",
        )
    before = variable.numpy()
    undo.append(lambda: variable.assign(before))
    variable.assign(moved(before, variation.seed, number))
    return value


def _dtype(name: str) -> Any:
    with suppress(TypeError):
        found = tf.as_dtype(name)
        if found.is_floating:
            return found
    raise no_dtype("TensorFlow", name)
