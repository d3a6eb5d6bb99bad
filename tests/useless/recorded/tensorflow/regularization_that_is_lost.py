# from: own
# truth: tf.add returns a new tensor, and its result is not used
# kind: other
import tensorflow as tf

tf.random.set_seed(0)
weight = tf.Variable(tf.random.normal([7, 3]))


def loss(x, y):
    error = tf.reduce_mean(tf.square(tf.matmul(x, weight) - y))
    decay = 1e-2 * tf.nn.l2_loss(weight)
    tf.add(error, decay)  # <- here
    return error


PROBED = loss
GIVEN = tf.random.normal([11, 7]), tf.random.normal([11, 3])
