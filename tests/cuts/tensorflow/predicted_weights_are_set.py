# from: https://github.com/keras-team/keras/issues/15836
# ask: explain
# kind: left_framework
# name: rate
# missing: gradients[0]
# moves: rate.assign(rate * 3.0)
"""A learned rate scales the weights that a model is given."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
learner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
start = [tf.constant(each) for each in learner.get_weights()]
rate, bias = tf.Variable(0.5, name="rate"), tf.Variable([0.0, 0.0], name="bias")
x, y = tf.random.normal([6, 3]), tf.random.normal([6, 2])
for step in range(2):
    with tf.GradientTape() as tape:
        scaled = [each * rate for each in start]
        learner.set_weights(scaled)  # <- here
        loss = tf.reduce_mean((learner(x) + bias - y) ** 2)
    gradients = tape.gradient(loss, [rate, bias])
    bias.assign_sub(0.1 * gradients[1])
