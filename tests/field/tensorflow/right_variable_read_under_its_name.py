# from: own
# exit: 0
# says: all 2 parameters got a gradient
# never: assign|watch
"""A name is a Variable and then what is computed from it; the tape is asked for the Variable itself."""

import tensorflow as tf

held = {"w": tf.Variable([0.5, -0.5, 1.0]), "b": tf.Variable(0.1)}
mask = tf.constant([1.0, 0.0, 1.0])
x = tf.random.normal((8, 3), seed=1)
for step in range(2):
    w, b = held["w"], held["b"]
    with tf.GradientTape() as tape:
        w = w * mask
        loss = tf.reduce_mean((tf.linalg.matvec(x, w) + b - 1.0) ** 2)
    for variable, gradient in zip(held.values(), tape.gradient(loss, [*held.values()])):
        variable.assign_sub(0.1 * gradient)
