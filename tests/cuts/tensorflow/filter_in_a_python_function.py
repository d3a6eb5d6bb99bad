# from: https://github.com/cleverhans-lab/cleverhans/issues/432
# ask: explain
# kind: left_framework
# name: gain
# missing: gradients["gain"]
# moves: gain.assign(gain * 1.5)
"""A filter of NumPy stands in front of a network, within tf.py_function."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(0)
gain = tf.Variable([0.5, 1.0, 1.5, 2.0], name="gain")
head = tf.Variable(tf.random.normal([4, 1]), name="head")
x, y = tf.random.normal([8, 4]), tf.random.normal([8, 1])


def sharpen(signal):
    rows = signal.numpy()  # <- here
    return np.sinh(rows) / np.cosh(rows).max()


for step in range(2):
    with tf.GradientTape() as tape:
        h = x * gain
        filtered = tf.py_function(sharpen, [h], tf.float32)  # <- here
        loss = tf.reduce_mean((filtered @ head - y) ** 2)
    gradients = dict(zip(("gain", "head"), tape.gradient(loss, [gain, head]), strict=True))
    head.assign_sub(0.1 * gradients["head"])
