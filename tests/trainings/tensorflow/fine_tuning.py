"""A trained Keras model goes on: converged, with a frozen body, or a new head."""

import keras
import tensorflow as tf

from trainings.planted import Fault, grid
from trainings.with_tensorflow import Training, optimizer_of, seeded

HEALTHY = grid(kind=["converged", "frozen", "new head"], optimizer=["adam", "sgd"])
FAULTY = {
    "rate too high": {"kind": "converged", "fault": Fault("learning_rate", size=200.0)},
    "no step": {"kind": "frozen", "fault": Fault("no_step")},
    "wrong sign": {"kind": "new head", "fault": Fault("wrong_sign", 0)},
    "tiny rate": {"kind": "converged", "rate": 1e-11, "fault": Fault("stagnation", 0)},
}


def make(seed, kind, optimizer="adam", rate=None):
    generator = seeded(seed)
    body = keras.Sequential([keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(16, activation="tanh")])
    model = keras.Sequential([body, keras.layers.Dense(1)])
    model.build((None, 5))
    weights = generator.normal([5, 1])

    def draw(step):
        x = generator.normal([16, 5])
        return x, tf.tanh(x @ weights) + 0.1 * generator.normal([16, 1])

    first = optimizer_of("adam", 0.01)
    for step in range(80):
        x, y = draw(step)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        first.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    body.trainable = kind != "frozen"
    if kind == "new head":
        model.layers[-1].kernel.assign(0.1 * generator.normal([16, 1]))
    made = optimizer_of(optimizer, rate)
    return Training(model, made, draw, lambda x, y: tf.reduce_mean((model(x, training=True) - y) ** 2, -1), steps=60)
