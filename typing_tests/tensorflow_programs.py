"""Functions, models and blocks of TensorFlow.

It comes without types: to mypy its tensors are Any, and pyright brings stubs. What backprobe adds has types.
"""

from typing import Any, assert_type

import keras
import tensorflow as tf

import backprobe as bp


def loss(x: tf.Tensor, scale: float) -> tf.Tensor:
    return tf.reduce_sum(x * scale)


x = tf.ones(3)
rec = bp.probe(loss, backend="tensorflow")(x, scale=2.0)
gradient: tf.Tensor = rec["x"].grad
assert_type(rec["x"].status, bp.GradStatus)
model = keras.Sequential([keras.layers.Dense(1)])
assert_type(bp.probe(model)(x), bp.Recording[Any, Any])
with bp.probe(of="loss") as block:
    total = tf.reduce_sum(x)
assert_type(block["total"].reason, str)

bp.probe(loss)(x)  # type: ignore[call-arg]
bp.probe(loss)(x, scale="2")  # type: ignore[arg-type]
bp.probe(model, strategy="edgse")  # type: ignore[call-overload]
rec["x"].gard  # type: ignore[attr-defined]
block["total"].gard  # type: ignore[attr-defined]
