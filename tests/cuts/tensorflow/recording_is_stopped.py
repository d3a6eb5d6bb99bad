# from: https://www.tensorflow.org/guide/advanced_autodiff
# ask: explain
# kind: no_grad
# name: gate
# missing: gradients["gate"]
# moves: gate.assign(gate * 2.0)
"""A context of the program's own stops the tape for what it takes to be bookkeeping."""

import contextlib

import tensorflow as tf

tf.random.set_seed(0)
gate = tf.Variable([0.3, -0.2, 0.8], name="gate")
weights = tf.Variable(tf.random.normal([3, 1]), name="weights")
x, y = tf.random.normal([9, 3]), tf.random.normal([9, 1])


@contextlib.contextmanager
def bookkeeping(tape):
    with tape.stop_recording():  # <- here
        yield


for step in range(2):
    with tf.GradientTape() as tape:
        with bookkeeping(tape):  # <- here
            strength = tf.sigmoid(gate)  # <- here
            mean_strength = tf.reduce_mean(strength)
        loss = tf.reduce_mean(((x * strength) @ weights - y) ** 2)
    gradients = dict(zip(("gate", "weights"), tape.gradient(loss, [gate, weights]), strict=True))
    weights.assign_sub(0.1 * gradients["weights"])
