"""``bp.guard(model, capture=...)`` and ``bp.replay`` of Keras models in TensorFlow."""

from __future__ import annotations

import keras
import numpy
import pytest
import tensorflow as tf
from keras import layers

import backprobe as bp

STEPS = 4


def root(h, x):
    """Its gradient is not finite where all of the batch is zero."""
    return tf.sqrt((tf.abs(h) + 1e-6) * tf.cast(tf.reduce_any(x != 0), h.dtype))


class Net(keras.Model):
    def __init__(self, *inside, **given):
        super().__init__(**given)
        self.inside, self.head = list(inside), layers.Dense(2)

    def call(self, x, training=None):
        h = x
        for layer in self.inside:
            h = layer(h)
        return self.head(layers.Flatten()(root(h, x)))


class Nested(keras.Model):
    def __init__(self):
        super().__init__()
        self.a, self.b = layers.Dense(4), layers.Dense(2)

    def call(self, batch, scale=1.0):
        h = self.a(batch["x"][0]) * scale
        return {"out": self.b(root(h, batch["x"][1])), "h": h}


class Share(keras.Model):
    def __init__(self):
        super().__init__()
        self.a = layers.Dense(4)

    def call(self, x):
        h = self.a(x)
        return h / tf.reduce_sum(h * x[:, :1])


def floats(step, *shape):
    drawn = numpy.random.default_rng(step).standard_normal(shape).astype("float32")
    return tf.constant(drawn * (step < STEPS - 1))


def tokens(step, *shape):
    return tf.constant(numpy.random.default_rng(step).integers(1, 9, shape) * (step < STEPS - 1))


def sequential():
    return Net(layers.Dense(8, "gelu"), layers.Dropout(0.3), layers.Dense(4))


def convolutions():
    return Net(layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU())


def embedding():
    return Net(layers.Embedding(9, 4), layers.LSTM(5))


def attention():
    class Attention(layers.Layer):
        def __init__(self):
            super().__init__()
            self.inside = layers.MultiHeadAttention(2, 4, dropout=0.2)

        def call(self, x):
            return self.inside(x, x)

    return Net(layers.Embedding(9, 8), Attention(), layers.LayerNormalization())


CASES = {
    "dropout": (sequential, lambda step: ((floats(step, 6, 3),), {"training": True})),
    "batch norm": (convolutions, lambda step: ((floats(step, 5, 8, 8, 3),), {"training": True})),
    "embedding, LSTM": (embedding, lambda step: ((tokens(step, 4, 5),), {})),
    "attention": (attention, lambda step: ((tokens(step, 4, 5),), {"training": True})),
    "nested batch": (Nested, lambda step: (({"x": [floats(0, 6, 3), floats(step, 6)]},), {"scale": 0.5})),
    "in the forward": (Share, lambda step: ((floats(step, 6, 3),), {})),
}


@pytest.mark.parametrize("name", CASES)
def test_a_step_runs_again_in_every_bit(name, tmp_path):
    make, given = CASES[name]
    keras.utils.set_random_seed(0)
    net, optimizer = make(), keras.optimizers.Adam(0.01)
    path = tmp_path / "bad-step"
    with pytest.raises(bp.NotFinite) as caught, bp.guard(net, capture=path):
        for step in range(STEPS):
            args, kwargs = given(step)
            with tf.GradientTape() as tape:
                out = net(*args, **kwargs)
                loss = tf.reduce_mean(tf.square(out["out"] if isinstance(out, dict) else out))
            optimizer.apply(tape.gradient(loss, net.trainable_variables), net.trainable_variables)
    assert step == STEPS - 1
    keras.utils.set_random_seed(7)
    report = bp.replay(path, make())
    assert report.bitwise, report
    assert [one.headline for one in report.findings] == [one.headline for one in caught.value.report.findings]
    assert report.recording is not None
