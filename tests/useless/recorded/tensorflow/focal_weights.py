# from: own
# truth: healthy: probabilities weigh a cross entropy of logits, so softmax is taken twice of the logits
# kind: healthy
import tensorflow as tf

tf.random.set_seed(0)
weight, bias = tf.Variable(tf.random.normal([9, 4])), tf.Variable(tf.zeros([4]))


def focal(x, labels):
    logits = tf.matmul(x, weight) + bias
    right = tf.gather(tf.nn.softmax(logits), labels, axis=1, batch_dims=1)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean((1 - right) ** 2 * each)


PROBED = focal
GIVEN = tf.random.normal([21, 9]), tf.constant([0, 1, 2, 3, 1, 2, 0] * 3)
