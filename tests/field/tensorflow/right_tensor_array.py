# from: own
# exit: 0
# says: all 2 parameters got a gradient
# never: TensorList|cuts|useless
"""A recurrence in a compiled function: its states are written into a TensorArray and stacked."""

import tensorflow as tf

decay, gain = tf.Variable(0.8, name="decay"), tf.Variable([0.5, -0.5], name="gain")


@tf.function
def rollout(x):
    states = tf.TensorArray(tf.float32, size=tf.shape(x)[0])
    state = tf.zeros(2)
    for i in tf.range(tf.shape(x)[0]):
        state = tf.tanh(decay * state + gain * x[i])
        states = states.write(i, state)
    return states.stack()


x = tf.random.normal((6, 2), seed=1)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((rollout(x) - 0.2) ** 2)
    by_decay, by_gain = tape.gradient(loss, [decay, gain])
    decay.assign_sub(0.1 * by_decay)
    gain.assign_sub(0.1 * by_gain)
