"""Making the arguments of a function differentiable without changing what the caller holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.tensorflow.tensors import is_eager, variable_of
from backprobe.record.containers import exchanged, leaves


def lift(
    arguments: Mapping[str, Any], wrt: frozenset[str] | None, undo: list[Callable[[], None]],
    watch: Callable[[Any], Any],
) -> Mapping[str, Any]:  # fmt: skip
    """The arguments by parameter name; those to be differentiated are tensors of their own, as ``watch`` gives them.

    Containers stay the caller's own objects; ``undo`` gets what puts their old leaves back.

    Every floating argument is differentiated, Python and NumPy numbers included; integers only where nothing else is
    there to differentiate. ``wrt`` names the parameters to differentiate instead. A trainable Variable needs nothing:
    a tape follows it wherever the program comes upon it.
    """
    chosen = [leaf for name, value in arguments.items() if wrt is None or name in wrt for _, leaf in leaves(value)]
    integers_too = not any(_is_floating(leaf) for leaf in chosen)
    made: dict[int, Any] = {}

    def differentiated(leaf: Any) -> Any:
        if variable_of(leaf) is not None:
            return leaf
        if isinstance(leaf, numpy.ndarray) and leaf.dtype.kind in "iub":
            return tf.constant(leaf)
        if not (_is_floating(leaf) or (integers_too and type(leaf) is int)):
            return leaf
        if isinstance(leaf, int | float | complex):
            return watch(_own(leaf))  # equal numbers are one object in Python and two arguments here
        if id(leaf) not in made:
            made[id(leaf)] = watch(_own(leaf))
        return made[id(leaf)]

    return {
        name: exchanged(value, differentiated, undo) if wrt is None or name in wrt else value
        for name, value in arguments.items()
    }


def _is_floating(leaf: Any) -> bool:
    variable = variable_of(leaf)
    if variable is not None or is_eager(leaf):
        kind = (leaf if variable is None else variable).dtype
        return bool(kind.is_floating or kind.is_complex)
    if isinstance(leaf, numpy.ndarray | numpy.generic):
        return _is_floating_array(leaf)
    return isinstance(leaf, float | complex)


def _is_floating_array(array: Any) -> bool:
    """NumPy's own floating dtypes, and those that TensorFlow adds to it, such as bfloat16."""
    return array.dtype.kind in "fc" or (array.dtype.kind == "V" and "float" in array.dtype.name)


def _own(leaf: Any) -> Any:
    """A tensor of its own with the numbers of an argument, and with what others wrote on it, such as Keras's masks."""
    if isinstance(leaf, tf.Tensor):
        tensor = tf.identity(leaf)
        vars(tensor).update(vars(leaf))
        return tensor
    if isinstance(leaf, numpy.ndarray | numpy.generic):
        return tf.constant(numpy.array(leaf))
    return tf.constant(leaf, tf.complex64 if isinstance(leaf, complex) else tf.float32)
