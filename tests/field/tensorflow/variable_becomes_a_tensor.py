# from: https://www.tensorflow.org/guide/autodiff
# exit: 1
# says: assign
# never: next: [^:]*\bwatch\(
"""Gradient descent by hand: the step binds the name of the Variable to a tensor, which no tape watches."""

import tensorflow as tf

x = tf.random.normal((16, 3), seed=1)
y = tf.linalg.matvec(x, [1.0, -2.0, 0.5])
w = tf.Variable(tf.zeros(3), name="w")
for step in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(x, w) - y) ** 2)
    gradient = tape.gradient(loss, w)
    print(step, float(loss))
    if gradient is None:
        break
    w = w - 0.1 * gradient  # <- here
