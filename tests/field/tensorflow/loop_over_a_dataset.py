# from: own
# says: loss loops over a dataset, and was run line by line here, which the program does not do
# says: total loops over a dataset
# never: plain loops over a dataset
"""Loops over a dataset that a tf.function compiles, and that TensorFlow has no derivative of; and one that it has."""

import numpy as np
import tensorflow as tf

dataset = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype="float32").reshape(3, 2))
w = tf.Variable([1.0, 2.0])


@tf.function
def loss():
    found = tf.constant(0.0)
    for row in dataset:
        found = found + tf.reduce_sum(row * w) ** 2
    return found


def total(rows):
    found = tf.constant(0.0)
    for row in rows.batch(2):
        found += tf.reduce_sum(row * w)
    return found


@tf.function
def twice():
    return total(dataset) * 2.0


def plain():
    found = tf.constant(0.0)
    for row in dataset:
        found += tf.reduce_sum(row * w)
    return found


with tf.GradientTape() as tape:
    value = loss() + twice() + plain()
print(tape.gradient(value, w))
