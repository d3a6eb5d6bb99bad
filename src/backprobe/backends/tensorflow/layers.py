"""Keras layers as functions: recognises layers, finds their computing method, and calls layers with another method."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakSet

import tensorflow as tf

from backprobe.backends.patching import listening, original
from backprobe.backends.tensorflow import private
from backprobe.backends.user_lines import callers
from backprobe.errors import BadOption
from backprobe.record.containers import leaves

MAKING = "make_train_function"
"""The method by which Keras's trainer compiles the function that ``fit`` runs."""


def is_layer(value: Any) -> bool:
    """Is the value a Keras layer or model that computes with TensorFlow? Keras is not imported for this test."""
    keras = sys.modules.get("keras")
    kind = getattr(getattr(keras, "layers", None), "Layer", None)
    return kind is not None and isinstance(value, kind) and keras.backend.backend() == "tensorflow"  # type: ignore[union-attr]  # keras is there where kind is


def reduced(value: Any) -> tuple[Any, ...] | None:
    """Return how to pickle a layer: as Keras does, plus the program's own classes, which Keras would look up only by
    name. None for other values.
    """
    if not is_layer(value):
        return None
    inner = [one for one in value._flatten_layers() if not type(one).__module__.startswith("keras.")]
    return _made_again, (type(value).__name__, {type(one).__name__: type(one) for one in inner}, *value.__reduce__())


def _made_again(name: str, classes: Mapping[str, type], make: Callable[..., Any], args: Sequence[Any]) -> Any:
    # Recreate a layer in the other process. Raises BadOption if its class cannot be called with its configuration.
    import keras

    try:
        with keras.saving.custom_object_scope(dict(classes)):
            return make(*args)
    except (TypeError, NotImplementedError) as error:
        raise BadOption(
            f"{name} cannot be made again in another process",
            asked="executor=",
            found=str(error).strip().splitlines()[-1],
            why="Keras makes a layer of its class and what get_config() returns",
            next=f"def __init__(self, **options): super().__init__(**options), in {name}; or without executor=",
        ) from error


def own_call(layer: Any) -> Callable[..., Any]:
    """Return the method in which a layer computes. If it is a ``tf.function``, return the Python method inside."""
    call: Callable[..., Any] = original(layer, "call")
    return private.bound_function(call) if private.is_compiled(call) else call


def call_with(layer: Any, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a layer with another method instead of its ``call``."""
    with listening(layer, "call", partial(instead, call)):
        return layer(*args, **kwargs)


def instead(call: Callable[..., Any], following: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run ``call`` instead of ``following``, the layer's own method. Symbols are still passed to ``following``: Keras
    uses them to infer shapes, which is not part of the program.
    """
    return (following if is_symbolic((args, kwargs)) else call)(*args, **kwargs)


FOLLOWED: WeakSet[Any] = WeakSet()
"""Graphs whose tracing is recorded, because the program computes with their symbolic tensors."""


def is_symbolic(value: Any) -> bool:
    """Does the value contain symbols instead of tensors, or is the running code being traced? In a graph of
    ``FOLLOWED``, only Keras's symbols count.
    """
    symbol = sys.modules["keras"].KerasTensor
    if FOLLOWED and not tf.executing_eagerly() and tf.compat.v1.get_default_graph() in FOLLOWED:
        return any(isinstance(leaf, symbol) for _, leaf in leaves(value))
    return not tf.executing_eagerly() or any(
        isinstance(leaf, symbol) or (isinstance(leaf, tf.Tensor) and tf.is_symbolic_tensor(leaf))
        for _, leaf in leaves(value)
    )


def compiled_by_keras() -> set[str]:
    """Return Keras's names for the functions that it compiles for training, evaluation and prediction."""
    keras = sys.modules.get("keras")
    trainers = [] if keras is None else [vars(kind) for kind in keras.Model.__mro__ if MAKING in vars(kind)]
    makers = [maker.__code__ for trainer in trainers for maker in trainer.values() if isinstance(maker, FunctionType)]
    inner = {code.co_name for maker in makers for code in maker.co_consts if isinstance(code, CodeType)}
    return {name for name in inner if "_step_" in name}


def is_in_step_of_keras() -> bool:
    """Is a step running that Keras compiles?"""
    names = {frame.f_code.co_name for frame in callers(sys._getframe())}
    return not names.isdisjoint(compiled_by_keras())


def variables(layer: Any) -> dict[str, Any]:
    """Return the Variables of a layer by their paths in the layer. ``stateless`` replaces these by other values."""
    return {variable.path.removeprefix(f"{layer.path}/").replace("/", "."): variable for variable in layer.variables}


def stateless(layer: Any, values: Mapping[int, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a layer with other values, given by id, instead of its Variables, which stay unchanged."""
    trainable, others = (
        [values[id(one)] for one in several] for several in (layer.trainable_variables, layer.non_trainable_variables)
    )
    return layer.stateless_call(trainable, others, *args, **kwargs)
