# from: own
# ask: explain --nonfinite PROGRAM:loss_of counts='[[0.0, 0.0], [1.0, 2.0]]'
# birth: forward
# name: normalizer
# operands: a row of 0.0
import tensorflow as tf


def loss_of(counts):
    normalizer = tf.math.lbeta(counts)  # <- here
    return -tf.reduce_mean(normalizer)
