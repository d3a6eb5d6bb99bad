"""Replaces values and gradients of a program under a gradient tape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.capabilities import Replaces
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.bridging import bridged
from backprobe.backends.tensorflow.cuts import in_checkpoint
from backprobe.backends.tensorflow.operation_log import OperationLog
from backprobe.backends.tensorflow.tensors import is_eager, variable_of


class TensorflowReplaces(Replaces):
    """Implements ``Replaces`` for TensorFlow."""

    log: OperationLog
    gradients: Any
    changed: dict[int, Any]
    """The tensors that receive the changed gradients, each by the id of the tensor with which the program continues."""

    is_differentiated: Callable[[Any], bool]
    read_unseen: Callable[[Any], Any]

    def handed(self, tensor: Any) -> Any:
        return tf.convert_to_tensor(tensor)  # the value of a Variable, which could otherwise be written to

    def as_tensor(self, new: Any, like: Any) -> Any:
        if is_eager(new) or variable_of(new) is not None:
            return tf.convert_to_tensor(new)
        if isinstance(new, numpy.ndarray | numpy.generic):
            return tf.constant(new)
        if isinstance(new, bool | int | float | complex):
            return tf.constant(new, dtype=like.dtype)
        return None

    def instead(self, new: Any, original: Any, is_given: bool) -> Any:
        if self.is_differentiated(new) or not self.is_differentiated(original) or private.is_stopped():
            return _as_masked(tf.identity(new), original)
        with self.gradients.stop_recording():
            made = tf.identity(new)
        self.gradients.watch(made)
        self.log.root(made)
        return _as_masked(made, original)

    def mixed(self, new: Any, original: Any, index: tuple[Any, ...]) -> Any:
        chosen = numpy.zeros(original.shape, bool)
        chosen[index] = True
        return tf.where(chosen, new, original)

    def like(self, array: Any, tensor: Any) -> Any:
        return tf.cast(tf.constant(array), tensor.dtype)

    def with_numbers(self, new: Any, original: Any) -> Any:
        def numbers(_: Any) -> Any:
            return tf.identity(new), lambda gradient: gradient

        return _as_masked(tf.custom_gradient(numbers)(tf.convert_to_tensor(original)), original)

    def linked(self, value: Any, sources: Sequence[Any]) -> Any | None:
        return bridged(value, [*sources])

    def original_value(self, tensor: Any) -> Callable[[], Any]:
        variable = variable_of(tensor)
        value = tensor if variable is None else self.read_unseen(variable)
        return lambda: value

    def with_gradient(self, tensor: Any, change: Callable[[Any], Any]) -> Any:
        if not self.is_differentiated(tensor):
            return tensor

        @tf.custom_gradient  # type: ignore[untyped-decorator]  # TensorFlow has no types
        def changed(value: Any) -> Any:
            return tf.identity(value), lambda gradient: change(tf.convert_to_tensor(gradient))

        before = tf.identity(tensor)
        made = _as_masked(changed(before), tensor)
        self.changed[private.identity_of(made)] = before
        return made

    def runs_again(self) -> bool:
        return in_checkpoint()


def _as_masked(tensor: Any, like: Any) -> Any:
    # Return the tensor with the attributes that others set on the tensor it replaces, such as Keras's masks.
    if is_eager(like):
        vars(tensor).update(vars(like))
    return tensor
