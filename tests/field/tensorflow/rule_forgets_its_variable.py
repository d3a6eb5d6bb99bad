# from: https://github.com/tensorflow/tensorflow/issues/38622
# exit: 1
# says: width
# says: soft_step
# never: does not lead back
"""A rule written by hand gives nothing back to the Variable that its function reads."""

import tensorflow as tf

width = tf.Variable(0.5, name="width")
w = tf.Variable([0.3, -0.2], name="w")
x = tf.random.normal((8, 2), seed=1)


@tf.custom_gradient
def soft_step(u):
    s = tf.sigmoid(u / width)

    def rule(upstream, variables=None):
        return upstream * s * (1 - s) / width, [None for _ in variables]

    return s, rule


for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((soft_step(tf.linalg.matvec(x, w)) - 1.0) ** 2)  # <- here
    by_w, by_width = tape.gradient(loss, [w, width])
    w.assign_sub(0.1 * by_w)
print(by_width)
