"""Makes the arguments of a function differentiable without changing the caller's own objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.immutable import is_floating_number
from backprobe.backends.tensorflow.tensors import is_floating, is_tensor, plain, variable_of
from backprobe.record.containers import exchanged, leaves


def lift(
    arguments: Mapping[str, Any],
    wrt: frozenset[str] | None,
    undo: list[Callable[[], None]],
    watch: Callable[[Any], Any],
) -> Mapping[str, Any]:
    """Return the arguments by parameter name, in which the differentiated ones are new tensors, as returned by
    ``watch``.

    Containers stay the caller's own objects; ``undo`` receives functions that restore their leaves.

    Every floating-point argument is differentiated, including Python and NumPy numbers. Python integers are
    differentiated only if there are no floating-point arguments; NumPy arrays of integers become constants. ``wrt``
    limits all of this to the arguments of these names. Variables are left as they are, because a tape watches the
    trainable ones wherever the program uses them.
    """
    chosen = [leaf for name, value in arguments.items() if wrt is None or name in wrt for _, leaf in leaves(value)]
    integers_too = not any(is_floating_leaf(leaf) for leaf in chosen)
    made: dict[int, Any] = {}

    def differentiated(leaf: Any) -> Any:
        if variable_of(leaf) is not None:
            return leaf
        if isinstance(leaf, numpy.ndarray) and leaf.dtype.kind in "iub":
            return tf.constant(leaf)
        if not (is_floating_leaf(leaf) or (integers_too and type(leaf) is int)):
            return leaf
        if isinstance(leaf, int | float | complex):
            return watch(_own(leaf))  # equal numbers may be one object in Python, but are two arguments here
        if id(leaf) not in made:
            made[id(leaf)] = watch(_own(leaf))
        return made[id(leaf)]

    return {
        name: exchanged(value, differentiated, undo) if wrt is None or name in wrt else value
        for name, value in arguments.items()
    }


def is_floating_leaf(leaf: Any) -> bool:
    return is_floating(plain(leaf).dtype) if is_tensor(leaf) else is_floating_number(leaf)


def _own(leaf: Any) -> Any:
    # Return a new tensor with the numbers of an argument. The copy of a tensor keeps attributes that others set on it,
    # such as Keras's masks.
    if isinstance(leaf, tf.Tensor):
        tensor = tf.identity(leaf)
        vars(tensor).update(vars(leaf))
        return tensor
    if isinstance(leaf, numpy.ndarray | numpy.generic):
        return tf.constant(numpy.array(leaf))
    return tf.constant(leaf, tf.complex64 if isinstance(leaf, complex) else tf.float32)
