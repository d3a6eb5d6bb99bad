"""Callables that TensorFlow runs in a special way: compiled functions, layers, and functions that call other
functions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from backprobe.backends.framework_code import FrameworkFunctions
from backprobe.backends.tensorflow import layers
from backprobe.backends.tensorflow.private import bound_function, is_compiled
from backprobe.source.followed_calls import Callables

HIGHER_ORDER = FrameworkFunctions(
    tf.cond,
    tf.case,
    tf.switch_case,
    tf.while_loop,
    tf.map_fn,
    tf.scan,
    tf.foldl,
    tf.foldr,
    tf.nest.map_structure,
)
"""Functions that call the functions passed to them in eager mode. Similar functions that are not listed, such as
tf.vectorized_map, trace the functions passed to them.
"""


class TensorflowCallables(Callables):
    """Implements ``Callables`` for TensorFlow.

    A ``tf.function`` is run as the Python function that it wraps, because a graph has no local names.
    ``tf.config.run_functions_eagerly`` does the same. Existing traces are left alone and not used.
    """

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        if is_compiled(function):
            return bound_function(function), operator.call
        if any(is_compiled(vars(base).get("__call__")) for base in type(function).__mro__):  # for example a tf.Module's
            return bound_function(function.__call__), operator.call
        is_layer = modules_too and layers.is_layer(function)
        return (layers.own_call(function), partial(layers.call_with, function)) if is_layer else None

    def higher_order(self, function: Any) -> Callable[..., Any] | None:
        return function if function in HIGHER_ORDER else None


def is_made(function: Any) -> bool:
    """Did TensorFlow make this callable, or the ``__call__`` of its class, from another function?"""
    return TensorflowCallables().called(function, False) is not None
