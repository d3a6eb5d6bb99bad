# from: own
# ask: explain
# kind: healthy
"""A layer assigns running statistics while it computes, and metrics leave as numbers."""

import keras
import tensorflow as tf
from keras import ops


class Scaled(keras.layers.Layer):
    def build(self, shape):
        self.gain = self.add_weight(shape=(shape[-1],), initializer="ones", name="gain")
        self.spread = self.add_weight(shape=(shape[-1],), initializer="ones", trainable=False, name="spread")

    def call(self, x):
        self.spread.assign(0.9 * self.spread + 0.1 * ops.std(x, 0))
        return self.gain * x / (self.spread + 1e-3)


keras.utils.set_random_seed(0)
net = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, activation="tanh"), Scaled(), keras.layers.Dense(1)])
optimizer, seen = keras.optimizers.SGD(0.05), []
x, y = tf.random.normal([12, 5]), tf.random.normal([12, 1])
for step in range(3):
    with tf.GradientTape() as tape:
        predicted = net(x)
        loss = tf.reduce_mean((predicted - y) ** 2)
    seen.append((float(loss), predicted.numpy().std()))
    sources = net.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, sources), sources, strict=True))
