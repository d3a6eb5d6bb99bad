# from: https://www.tensorflow.org/api_docs/python/tf/math/divide_no_nan
# ask: explain --nonfinite PROGRAM:loss_of n='[1.0, 2.0]' d='[0.0, 4.0]'
# birth: healthy
import tensorflow as tf


def loss_of(n, d):
    share = tf.math.divide_no_nan(n, d)
    return tf.reduce_sum(share**2)
