# from: https://github.com/tensorflow/tensorflow/pull/112634
# ask: explain --nonfinite PROGRAM:loss_of v='[[0.0, 0.0], [3.0, 4.0]]'
# birth: backward
# name: v
# operands: 0.0 / 0.0
import tensorflow as tf


def loss_of(v):
    speed = tf.math.reduce_euclidean_norm(v, axis=-1)  # <- here
    return tf.reduce_sum(speed * speed)
