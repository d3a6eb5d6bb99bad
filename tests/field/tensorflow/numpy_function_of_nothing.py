# from: own
# exit: 1
# says: `tf.numpy_function\(outside, \[\], \[tf.float32, tf.float32\]\)` runs a function that no tape sees
# never: path: \S*outside
"""What a function reads that tf.numpy_function calls leaves TensorFlow there; nothing says what becomes of which."""

import numpy as np
import tensorflow as tf

w, v = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])


def outside():
    a = w * 2.0
    b = v * 3.0
    return np.ones(2, "float32"), a.numpy() + b.numpy()


for step in range(2):
    with tf.GradientTape() as tape:
        other, both = tf.numpy_function(outside, [], [tf.float32, tf.float32])  # <- here
        loss = tf.reduce_sum(both + other)
    print(step, tape.gradient(loss, [w, v]))
