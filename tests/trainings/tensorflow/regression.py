"""A regression by a small Keras model: batch sizes from 1 and several optimizers."""

import keras
import tensorflow as tf

from trainings.planted import faults, grid
from trainings.with_tensorflow import Training, optimizer_of, seeded

HEALTHY = grid(optimizer=["sgd", "momentum", "adam", "rmsprop"], batch=[1, 16])
FAULTY = faults(
    "learning_rate", "wrong_sign", "no_step", "zero_gradients", "cancelling", "outlier", "dead", "not_finite"
)


def make(seed, optimizer="sgd", batch=16):
    generator = seeded(seed)
    model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    model.build((None, 5))
    weights = generator.normal([5, 1])

    def draw(step):
        x = generator.normal([batch, 5])
        return x, tf.tanh(x @ weights) + 0.1 * generator.normal([batch, 1])

    def each(x, y):
        return tf.reduce_mean((model(x, training=True) - y) ** 2, -1)

    training = Training(model, optimizer_of(optimizer), draw, each)
    training.plant["dead"] = lambda: model.layers[0].bias.assign(tf.fill([16], -50.0))
    return training
