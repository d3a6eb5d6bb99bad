# from: own
# truth: the guesses are [24, 1] and the ages [24]
# kind: outer product
import tensorflow as tf

tf.random.set_seed(0)
kernel = tf.Variable(tf.random.normal([6, 1]))
bias = tf.Variable(tf.zeros([1]))


def loss(faces, ages):
    guess = tf.matmul(faces, kernel) + bias
    return tf.reduce_mean(tf.math.squared_difference(guess, ages))  # <- here


PROBED = loss
GIVEN = tf.random.normal([24, 6]), tf.random.normal([24])
