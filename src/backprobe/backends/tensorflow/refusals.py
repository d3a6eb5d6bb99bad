"""Raises errors for targets that a recording in TensorFlow would get wrong, with advice."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

from backprobe.backends.tensorflow import layers
from backprobe.errors import Unsupported

IN_KERAS = (
    "inside a step that Keras compiles",
    "model.fit or the like, which is tracing train_step or call",
    "model.compile(..., run_eagerly=True)",
)
IN_GRAPH = (
    "while TensorFlow builds a graph",
    "with graph.as_default(), a tf.function that is being traced, or eager execution disabled",
    "call it outside, or bp.probe(tensor, session=s)({x: 3.0}) for a tensor of the graph",
)


def refuse(target: Any, asked: str) -> None:
    """Raise Unsupported for targets without values, for layers that do not compute with TensorFlow or belong to Keras
    2, and for functions while TensorFlow builds a graph.
    """
    keras: Any = sys.modules.get("keras")
    symbol: Any = getattr(keras, "KerasTensor", ())
    if isinstance(target, symbol):
        raise Unsupported(
            "a KerasTensor is a symbol without values",
            asked=asked,
            found=f"a KerasTensor of shape {target.shape}",
            why="gradients are of numbers",
            next="bp.probe(model)(x), with x the numbers that the model is called with",
        )
    if isinstance(target, tf.Tensor) and tf.is_symbolic_tensor(target):
        raise Unsupported(
            "a tensor of a graph has no value here",
            asked=asked,
            found=f"the symbolic tensor {target.name!r}",
            why="this form runs a program, and the graph has its own",
            next="bp.probe(tensor, session=s)(feed_dict), or call the probe outside of tf.function",
        )
    _refuse_other_keras(target, asked, keras)
    if callable(target) and not tf.executing_eagerly():
        where, found, instead = IN_KERAS if layers.is_in_step_of_keras() else IN_GRAPH
        raise Unsupported(
            f"a function cannot be probed {where}",
            asked=asked,
            found=found,
            next=instead,
            why="TensorFlow computes nothing while it builds a graph, so a gradient tape gets no numbers",
        )


def _refuse_other_keras(target: Any, asked: str, keras: Any) -> None:
    # Raise Unsupported for a layer of Keras on another framework, or of Keras 2.
    if isinstance(target, getattr(getattr(keras, "layers", None), "Layer", ())) and not layers.is_layer(target):
        raise Unsupported(
            "this Keras layer does not compute with TensorFlow",
            asked=asked,
            found=f"Keras on {keras.backend.backend()}",
            why="its layers and tensors belong to that framework",
            next="KERAS_BACKEND=tensorflow, before Keras starts",
        )
    if any(base.__module__.partition(".")[0] == "tf_keras" for base in type(target).__mro__):
        raise Unsupported(
            "a layer of Keras 2 cannot be probed",
            asked=asked,
            found=f"{type(target).__name__} of tf_keras",
            why="its layers are called in another way than those of Keras 3",
            next="keras 3.12 or newer",
        )
