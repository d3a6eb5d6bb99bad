# from: own
# ask: explain --nonfinite PROGRAM:loss_of signal='[1.0, 2.0, 3.0, 1.0]' taps='[1.0, 1.0, 0.0, 0.0]'
# birth: forward
# name: ratio
# operands: 0.0
import tensorflow as tf


def loss_of(signal, taps):
    above, below = tf.abs(tf.signal.rfft(signal)), tf.abs(tf.signal.rfft(taps))
    ratio = above / below  # <- here
    return tf.reduce_sum(ratio**2)
