# from: https://www.tensorflow.org/text/tutorials/transformer
# ask: explain --nonfinite PROGRAM:loss_of q='[[1.0, 0.5], [2.0, -1.0]]' v='[[0.3, 0.2], [1.0, 2.0]]'
# birth: healthy
import tensorflow as tf


def loss_of(q, v):
    later = 1.0 - tf.linalg.band_part(tf.ones([2, 2]), -1, 0)
    scores = q @ tf.transpose(v) + later * q.dtype.min
    weights = tf.nn.softmax(scores)
    return tf.reduce_sum((weights @ v) ** 2)
