# from: https://github.com/tensorflow/tensorflow/pull/41927
# exit: 0
# says: all \d+ parameters got a gradient
# never: wrong|useless|exactly 0
"""Gradient reversal for domains: a rule that turns the gradient round on purpose."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)


@tf.custom_gradient
def reversed_gradient(x):
    return tf.identity(x), lambda upstream: -0.5 * upstream


class Reversal(keras.layers.Layer):
    def call(self, x):
        return reversed_gradient(x)


entry = keras.Input((4,))
features = keras.layers.Dense(6, activation="tanh")(entry)
label = keras.layers.Dense(1, name="label")(features)
domain = keras.layers.Dense(1, name="domain")(Reversal()(features))
model = keras.Model(entry, [label, domain])
optimizer = keras.optimizers.Adam(1e-3)
x, y = tf.random.normal((16, 4), seed=1), tf.cast(tf.range(16)[:, None] % 2, tf.float32)
for step in range(3):
    with tf.GradientTape() as tape:
        by_label, by_domain = model(x)
        loss = tf.reduce_mean((by_label - tf.reduce_sum(x, 1, keepdims=True)) ** 2)
        loss += tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, by_domain))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
