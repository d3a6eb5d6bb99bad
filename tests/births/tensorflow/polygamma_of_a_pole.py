# from: own
# ask: explain --nonfinite
# birth: forward
# name: curvature
# operands: 1.0, 0.0
# value: loss
import tensorflow as tf

gain = tf.Variable([1.0, 2.0, 3.0])
orders, places = tf.constant([1.0, 1.0, 2.0]), tf.constant([0.5, 0.0, 2.0])
for step in range(2):
    with tf.GradientTape() as tape:
        curvature = tf.math.polygamma(orders, places)  # <- here
        loss = tf.reduce_sum(gain * curvature)
    gradient = tape.gradient(loss, gain)
    gain.assign_sub(0.01 * gradient)
