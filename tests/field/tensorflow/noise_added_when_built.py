# from: https://github.com/tensorflow/tensorflow/issues/32729
# exit: 1
# says: mu
# never: stop_gradient|argmax
"""A noisy layer computes its weight in `build`, before the tape is there, and its `call` has nothing of the means."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402
import keras  # noqa: E402

keras.utils.set_random_seed(0)


class Noisy(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, shape):
        self.mu = self.add_weight(shape=(shape[-1], self.units), name="mu")
        self.sigma = self.add_weight(shape=(shape[-1], self.units), name="sigma", initializer="ones")
        self.noise = tf.random.normal((shape[-1], self.units))
        self.weight = self.mu + 0.1 * self.sigma * self.noise  # <- here

    def call(self, x):
        return tf.matmul(x, self.weight)


model = keras.Sequential([keras.layers.Dense(8, activation="tanh"), Noisy(2)])
model.build((None, 4))
optimizer = keras.optimizers.Adam(1e-2)
for step in range(3):
    x, y = tf.random.normal((16, 4)), tf.random.normal((16, 2))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients([(g, v) for g, v in zip(grads, model.trainable_variables) if g is not None])
