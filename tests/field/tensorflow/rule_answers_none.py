# from: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
# exit: 1
# says: sharpness
# says: None
# never: tape\.watch
# never: does not lead back
"""A rule of its own returns None for the second argument, which is learned: its derivative was left for later."""

import tensorflow as tf

x = tf.constant([-1.0, 0.2, 0.9, 2.0])
w = tf.Variable(0.8, name="w")
sharpness = tf.Variable(3.0, name="sharpness")


@tf.custom_gradient
def gate(value, slope):
    opened = tf.sigmoid(value * slope)

    def backward(upstream):
        return upstream * slope * opened * (1.0 - opened), None

    return opened, backward


for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((gate(x * w, tf.identity(sharpness)) - 0.3) ** 2)  # <- here
    by_w, by_sharpness = tape.gradient(loss, [w, sharpness])
    w.assign_sub(0.1 * by_w)
print(by_sharpness)
