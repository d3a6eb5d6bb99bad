# from: own
# ask: explain --nonfinite
# exit: 1
# says: variance \+ 1\.19e-07
"""Features are standardised by the statistics of a table; one of them never changed, and its variance is 0."""

import tensorflow as tf

tf.random.set_seed(0)
table = tf.concat([tf.random.normal((32, 3)), tf.fill((32, 1), 1.5)], 1)
mean, variance = tf.nn.moments(table, [0])
w = tf.Variable(tf.random.normal((4, 1)))
for _ in range(2):
    with tf.GradientTape() as tape:
        h = tf.nn.batch_normalization(table, mean, variance, None, None, 0.0)  # <- here
        loss = tf.reduce_mean((h @ w) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
