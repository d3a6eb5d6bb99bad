# from: https://www.tensorflow.org/api_docs/python/tf/py_function
# ask: explain
# kind: healthy
"""A Python function that computes with tensors alone is differentiated."""

import tensorflow as tf


def soft_cap(t):
    if tf.reduce_max(t) > 100.0:
        return t / tf.reduce_max(t)
    return tf.math.asinh(t)


tf.random.set_seed(0)
weights = tf.Variable(tf.random.normal([4, 1]))
x, y = tf.random.normal([7, 4]), tf.random.normal([7, 1])
for step in range(3):
    with tf.GradientTape() as tape:
        capped = tf.py_function(soft_cap, [x @ weights], tf.float32)
        loss = tf.reduce_mean((capped - y) ** 2)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
