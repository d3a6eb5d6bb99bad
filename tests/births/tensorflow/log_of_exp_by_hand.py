# from: https://www.tensorflow.org/api_docs/python/tf/custom_gradient
# ask: explain --nonfinite PROGRAM:loss_of x='[100.0, 1.0]'
# birth: forward
# name: grown
# operands: 100.0
import tensorflow as tf


def loss_of(x):
    grown = tf.exp(x)  # <- here
    soft = tf.math.log(1.0 + grown)
    return tf.reduce_sum(tf.minimum(soft, 50.0))
