# from: https://www.tensorflow.org/guide/autodiff
# exit: 1
# says: int32
# says: bias
# never: does not lead back
"""A Variable of whole numbers has no derivative."""

import tensorflow as tf

w = tf.Variable([0.5, 0.5], name="w")
bias = tf.Variable([1, 2], name="bias")  # <- here
x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
for step in range(2):
    with tf.GradientTape() as tape:
        y = x * w + tf.cast(bias, tf.float32)
        loss = tf.reduce_mean(y**2)
    by_w, by_bias = tape.gradient(loss, [w, bias])
    w.assign_sub(0.01 * by_w)
print(by_bias)
