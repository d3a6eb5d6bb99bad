# from: own
# truth: healthy: noise is drawn, and the standard deviation is learned through it
# kind: healthy
import tensorflow as tf

tf.random.set_seed(0)
encode = tf.Variable(tf.random.normal([8, 4]) * 0.3)
decode = tf.Variable(tf.random.normal([2, 8]) * 0.3)


def bound(x):
    mean, spread = tf.split(tf.matmul(x, encode), 2, axis=-1)
    code = mean + tf.exp(spread) * tf.random.normal(tf.shape(mean))
    rebuilt = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=tf.matmul(code, decode))
    divergence = 0.5 * tf.reduce_sum(tf.square(mean) + tf.exp(2 * spread) - 2 * spread - 1, axis=-1)
    return tf.reduce_mean(tf.reduce_sum(rebuilt, axis=-1) + divergence)


PROBED = bound
GIVEN = (tf.cast(tf.random.uniform([10, 8]) > 0.5, tf.float32),)
