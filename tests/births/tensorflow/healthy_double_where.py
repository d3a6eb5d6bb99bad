# from: https://www.tensorflow.org/api_docs/python/tf/where
# ask: explain --nonfinite PROGRAM:loss_of x='[0.0, 1.0, 4.0]'
# birth: healthy
import tensorflow as tf


def loss_of(x):
    safe = tf.where(x > 0.0, x, tf.ones_like(x))
    return tf.reduce_sum(tf.where(x > 0.0, tf.sqrt(safe), 0.0))
