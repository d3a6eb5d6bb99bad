# from: https://github.com/tensorflow/tensorflow/issues/31297
# exit: 1
# says: `x < edge` is true or false
# never: scale. is true
import tensorflow as tf

tf.random.set_seed(0)
edge, scale = tf.Variable([0.1, 0.2, 0.3]), tf.Variable([1.0, 2.0, 3.0])
for step in range(2):
    x = tf.random.normal([5, 3])
    with tf.GradientTape() as tape:
        y = tf.where(x < edge, scale, 0.0)  # <- here
        loss = tf.reduce_mean(y**2)
    by_edge, by_scale = tape.gradient(loss, [edge, scale], unconnected_gradients="zero")
    edge.assign_sub(0.1 * by_edge)
    scale.assign_sub(0.1 * by_scale)
