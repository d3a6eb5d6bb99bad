# from: own
# truth: the softmax of one score is 1, whatever the score
# kind: cancels
# names: score
import tensorflow as tf

tf.random.set_seed(0)
hidden = tf.Variable(tf.random.normal([5, 8]) * 0.4)
score = tf.Variable(tf.random.normal([8, 1]) * 0.4)
values = tf.Variable(tf.random.normal([8, 2]) * 0.4)


def loss(steps, target):
    states = tf.tanh(tf.einsum("nti,ij->ntj", steps, hidden))
    weight = tf.nn.softmax(tf.einsum("nti,ij->ntj", states, score))  # <- here
    pooled = tf.reduce_sum(weight * states, axis=1)
    return tf.reduce_mean(tf.square(tf.matmul(pooled, values) - target))


PROBED = loss
GIVEN = tf.random.normal([9, 4, 5]), tf.random.normal([9, 2])
