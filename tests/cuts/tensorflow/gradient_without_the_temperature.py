# from: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
# ask: explain
# kind: none_from_backward
# name: temperature
# missing: gradients[1]
# moves: temperature.assign(2.5)
"""A custom gradient has a slope for the logits and none for the temperature."""

import tensorflow as tf


@tf.custom_gradient
def sharpened(logits, temperature):
    p = tf.nn.softmax(logits / temperature)

    def slopes(upstream):
        inner = upstream - tf.reduce_sum(upstream * p, -1, keepdims=True)
        return p * inner / temperature, None  # <- here

    return p, slopes


tf.random.set_seed(1)
weights, temperature = tf.Variable(tf.random.normal([4, 3])), tf.Variable(1.5, name="temperature")
x, target = tf.random.normal([7, 4]), tf.nn.softmax(tf.random.normal([7, 3]))
for step in range(2):
    with tf.GradientTape() as tape:
        p = sharpened(x @ weights, temperature)  # <- here
        loss = -tf.reduce_mean(tf.reduce_sum(target * tf.math.log(p), -1))
    gradients = tape.gradient(loss, [weights, temperature])
    weights.assign_sub(0.1 * gradients[0])
