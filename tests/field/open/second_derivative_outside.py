# from: https://github.com/AhmedIsmailKhalid/Advanced-TensorFlow-Techniques
# exit: 1
# says: outer
# says: after|outside|ended|closed|over
# never: tape\.watch
# never: does not lead back
"""The residual of a differential equation: the first derivative is taken when the outer tape has stopped recording."""

import tensorflow as tf

rate = tf.Variable(0.7, name="rate")
t = tf.constant([[0.0], [0.5], [1.0]])
for step in range(2):
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(t)
            y = tf.exp(-rate * t)
    slope = inner.gradient(y, t)  # <- here
    residual = tf.reduce_mean((slope + 2.0 * y) ** 2)
    print(outer.gradient(residual, rate))
