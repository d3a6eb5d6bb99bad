# from: own
# never: got no gradient
import tensorflow as tf

w = tf.Variable([0.5, -1.0, 2.0], name="w")


def huber(x, m):
    if tf.reduce_max(tf.abs(x)) <= m:
        return tf.reduce_sum(x**2)
    return tf.reduce_sum(m**2 * (1 - 2 * tf.math.log(m) + tf.math.log(x**2)))


for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.py_function(huber, [w * 0.1, 2.0], tf.float32)
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.1 * gradient)
print(gradient.numpy())
