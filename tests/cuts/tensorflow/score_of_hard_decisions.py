# from: https://github.com/keras-team/keras/issues/6507
# ask: explain
# kind: discrete
# name: weights
# missing: gradients[0]
# moves: weights.assign(-weights)
"""A score that counts decisions is used as a loss: a table has how a probability becomes one."""

import tensorflow as tf

DECIDE = {"soft": tf.identity, "hard": lambda p: tf.where(p > 0.5, 1.0, 0.0)}  # <- here


def score(y, p, how):
    d = DECIDE[how](p)  # <- here
    hits = tf.reduce_sum(y * d)
    return 2 * hits / (tf.reduce_sum(d) + tf.reduce_sum(y) + 1e-6)


tf.random.set_seed(0)
weights = tf.Variable(tf.random.normal([5, 1]), name="weights")
scale = tf.Variable(1.0, name="scale")
x = tf.random.normal([20, 5])
y = tf.cast(tf.random.uniform([20, 1]) > 0.6, tf.float32)
for step in range(2):
    with tf.GradientTape() as tape:
        p = tf.sigmoid(x @ weights)
        f1 = score(y, p, "hard")
        loss = 1 - scale * f1
    gradients = tape.gradient(loss, [weights, scale])
    scale.assign_sub(0.01 * gradients[1])
