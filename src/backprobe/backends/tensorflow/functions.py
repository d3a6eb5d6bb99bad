"""Callables that TensorFlow runs in its own way: compiled functions, and functions that call others."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from backprobe.backends.tensorflow import private

HIGHER_ORDER = (
    tf.cond, tf.case, tf.switch_case, tf.while_loop, tf.map_fn, tf.scan, tf.foldl, tf.foldr, tf.nest.map_structure,
)  # fmt: skip
"""These call, outside of a graph, the very functions that they are given. Others, tf.vectorized_map, trace them."""


def is_compiled(function: Any) -> bool:
    return isinstance(function, tf.types.experimental.PolymorphicFunction)


def is_called_compiled(value: Any) -> bool:
    """Is it an object whose ``__call__`` is a ``tf.function``, as a ``tf.Module`` often is?"""
    return any(is_compiled(vars(base).get("__call__")) for base in type(value).__mro__)


def uncompiled(function: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The Python function of a ``tf.function``, run as the Python function it is: names are in no graph.

    So does ``tf.config.run_functions_eagerly``. What was traced before is left where it is, and not used.
    """
    return private.bound_function(function), operator.call
