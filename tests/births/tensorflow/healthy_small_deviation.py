# from: https://github.com/keras-team/keras/issues/2960
# ask: explain --nonfinite PROGRAM:loss_of x='[[2.0, 2.0], [1.0, 3.0]]'
# birth: healthy
import tensorflow as tf


def loss_of(x):
    mean, variance = tf.nn.moments(x, axes=[1], keepdims=True)
    return tf.reduce_sum((x - mean) / tf.sqrt(variance + 1e-6) * x)
