# from: https://github.com/tensorflow/tensorflow/issues/77864
# ask: explain --nonfinite PROGRAM:loss_of r='[1.0, 0.0, 2.0]' current=2.0
# birth: forward
# name: field
# operands: 0.0
import tensorflow as tf


def loss_of(r, current):
    field = tf.math.special.bessel_k0(r)  # <- here
    return tf.reduce_sum(current * field)
