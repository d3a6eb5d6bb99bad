# from: own
# ask: explain
# says: gradient: None
# never: gradient: tf\.Tensor
import numpy as np
import tensorflow as tf

rows = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype="float32").reshape(3, 2))
weight = tf.Variable([1.0, 2.0])


@tf.function
def loss():
    total = tf.constant(0.0)
    for row in rows:
        total = total + tf.reduce_sum(row * weight) ** 2
    return total


with tf.GradientTape() as tape:
    value = loss()
print("gradient:", tape.gradient(value, weight))
