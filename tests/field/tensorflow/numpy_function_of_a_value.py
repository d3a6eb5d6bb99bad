# from: own
# exit: 1
# says: `tf.numpy_function\(squash, \[h\], tf.float32\)` runs a function that no tape sees
"""One value passes through NumPy on its way to the loss."""

import numpy as np
import tensorflow as tf

w = tf.Variable([1.0, 2.0])


def squash(x):
    return np.tanh(x)


for step in range(2):
    with tf.GradientTape() as tape:
        h = w * 2.0
        y = tf.numpy_function(squash, [h], tf.float32)  # <- here
        loss = tf.reduce_sum(y)
    print(step, tape.gradient(loss, [w]))
