# from: https://github.com/tensorflow/tensorflow/issues/41594
# never: another program
# never: got no gradient
import tensorflow as tf

dataset = tf.data.Dataset.from_tensor_slices(tf.reshape(tf.range(6, dtype=tf.float32), (3, 2)))
w = tf.Variable([1.0, 2.0], name="w")


@tf.function
def error(row):
    return tf.reduce_sum(row * w) ** 2


for epoch in range(2):
    with tf.GradientTape() as tape:
        loss = tf.constant(0.0)
        for row in dataset:
            loss = loss + error(row)
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.001 * gradient)
print(gradient.numpy())
