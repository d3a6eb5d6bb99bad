"""Words are embedded, averaged or read by a GRU, and tell a class."""

import keras
import tensorflow as tf

from trainings.planted import faults, grid
from trainings.with_tensorflow import Training, optimizer_of, seeded

HEALTHY = grid(kind=["mean", "gru"], optimizer=["adam", "rmsprop"], batch=[2, 16])
FAULTY = faults("wrong_sign", "no_step", "zero_gradients", "wrong_labels", kind="mean")


def make(seed, kind, optimizer="adam", batch=16):
    generator = seeded(seed)
    body = keras.layers.GlobalAveragePooling1D() if kind == "mean" else keras.layers.GRU(8)
    model = keras.Sequential([keras.layers.Embedding(12, 8), body, keras.layers.Dense(3)])
    model.build((None, 5))
    lossy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def draw(step):
        words = generator.uniform([batch, 5], 0, 12, tf.int32)
        return words, tf.reduce_sum(words % 3, -1) // 4

    return Training(
        model, optimizer_of(optimizer, 0.01), draw, lambda x, y: lossy(y, model(x, training=True)), steps=60
    )
