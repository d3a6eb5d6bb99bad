# from: https://www.tensorflow.org/api_docs/python/tf/experimental/dlpack/to_dlpack
# ask: explain PROGRAM:loss_of x='[0.4, 1.7, -2.2]' w='[1.0, 0.5, -0.5]'
# kind: same_numbers
# name: x
# missing: x
import tensorflow as tf
from tensorflow.experimental import dlpack


def shared(tensor):
    return dlpack.from_dlpack(dlpack.to_dlpack(tensor))  # <- here


def loss_of(x, w):
    u = tf.math.softplus(x)
    v = shared(u)  # <- here
    return tf.reduce_sum((v * w) ** 2)
