# from: https://github.com/keras-team/keras/issues/2960
# ask: explain --nonfinite PROGRAM:loss_of x='[[2.0, 2.0], [1.0, 3.0]]'
# birth: backward
# name: x
# operands: deviation 0.0
import tensorflow as tf


def loss_of(x):
    spread = tf.math.reduce_std(x, axis=1)  # <- here
    return tf.reduce_sum((spread - 1.0) ** 2)
