# from: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
# ask: explain --nonfinite PROGRAM:loss_of gap='[[3.0, 4.0], [0.0, 0.0]]'
# birth: backward
# name: gap
# operands: 0.0 / 0.0
import tensorflow as tf


@tf.custom_gradient
def length(x):
    size = tf.sqrt(tf.reduce_sum(x * x, -1, keepdims=True))

    def slope(upstream):
        direction = x / size  # <- here
        return upstream * direction

    return size, slope


def loss_of(gap):
    far = length(gap)  # <- here
    return tf.reduce_sum(far)
