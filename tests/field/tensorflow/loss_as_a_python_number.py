# from: https://github.com/tensorflow/tensorflow/issues/28836
# exit: 3
# says: line \d+, in <module> gradient = 
# says: 'loss'
"""The loss is turned into a Python number for the log, and this number is differentiated."""

import tensorflow as tf

w = tf.Variable(tf.random.normal((3, 1), seed=1), name="w")
x = tf.random.normal((8, 3), seed=2)


def loss_of(x):
    return float(tf.reduce_mean((x @ w - 1.0) ** 2))


for step in range(2):
    with tf.GradientTape() as tape:
        loss = loss_of(x)
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.1 * gradient)
