# from: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
# ask: explain --nonfinite PROGRAM:loss_of x='[30.0, 1.0, -30.0]'
# birth: healthy
import tensorflow as tf


@tf.custom_gradient
def soft(x):
    grown = tf.exp(x)
    return tf.math.log(1.0 + grown), lambda upstream: upstream * (1.0 - 1.0 / (1.0 + grown))


def loss_of(x):
    return tf.reduce_sum(soft(x))
