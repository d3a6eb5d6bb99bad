# from: own
# ask: explain
# kind: dropped
# name: mixing
# missing: gradients[2]
"""A branch of a Keras model runs, and what comes out of it is never added."""

import keras
import tensorflow as tf


class Mixer(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = keras.layers.Dense(6, activation="relu", name="embed")
        self.mixing = keras.layers.Dense(6, name="mixing")
        self.out = keras.layers.Dense(1, name="out")

    def call(self, x):
        h = self.embed(x)
        h + self.mixing(h)  # <- here
        return self.out(h)


keras.utils.set_random_seed(0)
net, x, y = Mixer(), tf.random.normal([10, 4]), tf.random.normal([10, 1])
net(x)
optimizer = keras.optimizers.Adam(0.01)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((net(x) - y) ** 2)
    sources = net.trainable_variables
    gradients = tape.gradient(loss, sources)
    optimizer.apply_gradients((g, v) for g, v in zip(gradients, sources, strict=True) if g is not None)
