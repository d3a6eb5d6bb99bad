# from: https://insights.willogy.io/tensorflow-part-3-automatic-differentiation/
# exit: 3
# says: persistent
# never: got no gradient
"""Two losses on one tape: the second `gradient` finds it empty, since it is not persistent."""

import tensorflow as tf

w, v = tf.Variable([0.5, -0.5], name="w"), tf.Variable([1.0, 2.0], name="v")
x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
for step in range(2):
    with tf.GradientTape() as tape:
        hidden = tf.tanh(x * w)
        actor = tf.reduce_mean(hidden * v)
        critic = tf.reduce_mean((hidden - 1.0) ** 2)
    v.assign_sub(0.1 * tape.gradient(actor, v))
    w.assign_sub(0.1 * tape.gradient(critic, w))  # <- here
