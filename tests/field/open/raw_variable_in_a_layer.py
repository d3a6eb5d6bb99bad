# from: https://keras.io/guides/migrating_to_keras_3/
# exit: 1
# says: gain
# says: add_weight|trainable_variables
# never: all \d+ parameters got a gradient$
"""Keras 3 does not list a `tf.Variable` that a layer holds: nobody asks for its gradient, and it stays as it was."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)


class Gain(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.gain = tf.Variable(tf.ones(4), name="gain")  # <- here

    def call(self, x):
        return x * self.gain


model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), Gain(), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.1)
x = tf.random.normal((16, 3), seed=1)
y = tf.reduce_sum(x, 1, keepdims=True)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
print(model.layers[1].gain.numpy())
