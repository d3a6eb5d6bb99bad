# from: own
# ask: explain
# exit: 1
# says: tf\.numpy_function
# never: goes into .* through
import numpy as np
import tensorflow as tf

gain, shift = tf.Variable([1.0, 2.0]), tf.Variable([0.5, 0.5])


def outside():
    scaled, moved = gain * 2.0, shift * 3.0
    return np.ones(2, "float32"), scaled.numpy(), moved.numpy()


for _ in range(2):
    with tf.GradientTape() as tape:
        ones, scaled, moved = tf.numpy_function(outside, [], [tf.float32] * 3)  # <- here
        loss = tf.reduce_sum(scaled * moved + ones)
    print(tape.gradient(loss, [gain, shift]))
