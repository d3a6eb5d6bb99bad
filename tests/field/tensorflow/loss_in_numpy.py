# from: https://github.com/tensorflow/tensorflow/issues/32964
# exit: 1
# says: numpy_function
# never: got a gradient
import numpy as np
import tensorflow as tf

tf.random.set_seed(0)
w = tf.Variable(tf.random.normal((3, 1), seed=1), name="w")
x, y = tf.random.normal((8, 3), seed=2), tf.zeros((8, 1))


def pinball(predicted, actual):
    error = actual - predicted
    return np.mean(np.maximum(0.9 * error, -0.1 * error)).astype("float32")


with tf.GradientTape() as tape:
    predicted = x @ w
    loss = tf.numpy_function(pinball, [predicted, y], tf.float32)  # <- here
print(float(loss), tape.gradient(loss, w))
