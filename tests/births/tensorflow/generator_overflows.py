# from: own
# ask: explain --nonfinite PROGRAM:loss_of rates='[[90.0, 2.0], [1.0, 3.0]]'
# birth: forward
# name: flow
# operands: 90.0
import tensorflow as tf


def loss_of(rates):
    flow = tf.linalg.expm(rates)  # <- here
    return tf.reduce_sum(flow)
