# from: https://github.com/tensorflow/tensorflow/issues/47033
# never: got no gradient
import numpy as np
import tensorflow as tf

tf.random.set_seed(0)
w = tf.Variable(tf.random.normal((3, 4), seed=1), name="w")
x = tf.random.normal((5, 3), seed=2)
for step in range(2):
    with tf.GradientTape() as tape:
        y = x @ w
        nearest = tf.numpy_function(lambda a: np.argmin(a, -1), [y], np.int64)
        values = tf.gather(y, nearest, batch_dims=1)
        loss = tf.reduce_sum(values**2)
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.01 * gradient)
print(gradient.numpy())
