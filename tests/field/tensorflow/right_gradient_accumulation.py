# from: own
# exit: 0
# says: all 4 parameters got a gradient
# never: trainable=False|useless|exactly 0
"""Gradients of four batches are summed in Variables that are not trained, and applied once."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(1e-2)
sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]


@tf.function
def accumulate(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2) / 4.0
    for each, gradient in zip(sums, tape.gradient(loss, model.trainable_variables)):
        each.assign_add(gradient)
    return loss


@tf.function
def step():
    optimizer.apply_gradients(zip(sums, model.trainable_variables))
    for each in sums:
        each.assign(tf.zeros_like(each))


x = tf.random.normal((32, 3), seed=1)
for turn in range(2):
    for batch in tf.split(x, 4):
        accumulate(batch, tf.reduce_sum(batch, 1, keepdims=True))
    step()
