# from: https://github.com/keras-team/keras/issues/16663
# exit: 1
# never: got a gradient
import tensorflow as tf

tf.random.set_seed(0)
w = tf.Variable(tf.random.normal((3, 4), seed=1), name="w")


def order_loss(y_true, y_pred):
    actual = tf.argsort(tf.argsort(y_true))
    predicted = tf.argsort(tf.argsort(y_pred))  # <- here
    return tf.reduce_sum(tf.abs(tf.cast(actual - predicted, tf.float32)))


x, y = tf.random.normal((2, 3), seed=2), tf.constant([[1.0, 4.0, 2.0, 3.0], [4.0, 3.0, 2.0, 1.0]])
with tf.GradientTape() as tape:
    loss = order_loss(y, x @ w)
print(float(loss), tape.gradient(loss, w))
