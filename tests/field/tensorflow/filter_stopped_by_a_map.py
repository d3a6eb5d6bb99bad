# from: https://www.tensorflow.org/api_docs/python/tf/scan
# exit: 1
# says: decay
# says: stop_gradient
"""The filter is stopped by `tf.nest.map_structure(tf.stop_gradient, …)`, which `back_prop=False` was replaced by."""

import tensorflow as tf

decay, gain = tf.Variable(0.9, name="decay"), tf.Variable(1.0, name="gain")
series = tf.constant([1.0, 0.5, -0.2, 0.7])
for step in range(2):
    with tf.GradientTape() as tape:
        filtered = tf.scan(lambda h, x: decay * h + (1.0 - decay) * x, series)
        filtered = tf.nest.map_structure(tf.stop_gradient, filtered)  # <- here
        loss = tf.reduce_mean((gain * filtered - 1.0) ** 2)
    by_decay, by_gain = tape.gradient(loss, [decay, gain])
    gain.assign_sub(0.1 * by_gain)
print(by_decay)
