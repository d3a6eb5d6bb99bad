# from: https://www.tensorflow.org/api_docs/python/tf/map_fn
# ask: explain --nonfinite PROGRAM:loss_of rows='[[1.0, 3.0], [2.0, -2.0]]' w='[1.0, 0.5]'
# birth: forward
# name: shares, p
# operands: 2.0 / 0.0
import tensorflow as tf


def loss_of(rows, w):
    def share(row):
        total = tf.reduce_sum(row)
        shares = row / total  # <- here
        return shares

    p = tf.map_fn(share, rows)  # <- here
    return tf.reduce_sum(p * w)
