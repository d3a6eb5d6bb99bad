# from: https://www.tensorflow.org/api_docs/python/tf/image/adjust_gamma
# ask: explain --nonfinite PROGRAM:loss_of picture='[[0.0, 0.5], [0.25, 1.0]]'
# birth: backward
# name: picture
# operands: 0.0
import tensorflow as tf


def loss_of(picture):
    bright = tf.image.adjust_gamma(picture, 0.5)  # <- here
    return tf.reduce_mean((bright - 0.3) ** 2)
