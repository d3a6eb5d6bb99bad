# from: https://www.tensorflow.org/api_docs/python/tf/while_loop
# ask: explain --nonfinite PROGRAM:loss_of target='[4.0, 0.0]' start='[2.0, 0.0]'
# birth: forward
# name: better
# operands: 0.0 / 0.0
import tensorflow as tf


def loss_of(target, start):
    def body(i, guess):
        better = 0.5 * (guess + target / guess)  # <- here
        return i + 1, better

    _, root = tf.while_loop(lambda i, guess: i < 3, body, (tf.constant(0), start))  # <- here
    return tf.reduce_sum(root)
