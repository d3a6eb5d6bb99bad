# from: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
# ask: explain
# kind: healthy
import tensorflow as tf


@tf.custom_gradient
def rounded(x):
    return tf.round(x), lambda upstream: upstream


tf.random.set_seed(0)
weights, step_size = tf.Variable(tf.random.normal([4, 3])), tf.Variable(0.3)
x, y = tf.random.normal([9, 4]), tf.random.normal([9, 3])
for step in range(3):
    with tf.GradientTape() as tape:
        levels = rounded(x @ weights / step_size)
        loss = tf.reduce_mean((levels * step_size - y) ** 2)
    for variable, slope in zip([weights, step_size], tape.gradient(loss, [weights, step_size]), strict=True):
        variable.assign_sub(0.02 * slope)
