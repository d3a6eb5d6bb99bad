# from: own
# ask: explain
# kind: healthy
"""The nearest code stands in for the output of an encoder, and the slope goes past it."""

import tensorflow as tf

tf.random.set_seed(0)
encoder, decoder = tf.Variable(tf.random.normal([6, 2])), tf.Variable(tf.random.normal([2, 6]))
codes = tf.Variable(tf.random.normal([5, 2]))
x = tf.random.normal([20, 6])
for step in range(3):
    with tf.GradientTape() as tape:
        z = x @ encoder
        nearest = tf.argmin(tf.reduce_sum((z[:, None] - codes[None]) ** 2, -1), -1)
        e = tf.gather(codes, nearest)
        passed = z + tf.stop_gradient(e - z)
        loss = tf.reduce_mean((passed @ decoder - x) ** 2)
        loss += tf.reduce_mean((e - tf.stop_gradient(z)) ** 2) + 0.25 * tf.reduce_mean((tf.stop_gradient(e) - z) ** 2)
    sources = [encoder, decoder, codes]
    for variable, slope in zip(sources, tape.gradient(loss, sources), strict=True):
        variable.assign_sub(0.02 * tf.convert_to_tensor(slope))
