# from: https://github.com/probml/dynamax/issues/404
# ask: explain --nonfinite PROGRAM:loss_of cov='[[1.0, 2.0], [2.0, 1.0]]' y='[[1.0], [0.5]]'
# birth: forward
# name: factor
# operands: eigenvalue -1
import tensorflow as tf


def loss_of(cov, y):
    both = (cov + tf.transpose(cov)) / 2.0
    factor = tf.linalg.cholesky(both)  # <- here
    return tf.reduce_sum((factor @ y) ** 2)
