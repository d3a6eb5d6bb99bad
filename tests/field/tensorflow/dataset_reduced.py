# from: https://github.com/tensorflow/tensorflow/issues/36306
# exit: 1
# never: all 1 Variable
import tensorflow as tf

data = tf.data.Dataset.from_tensor_slices(tf.range(5, dtype=tf.float32))
u = tf.Variable(1.0, name="u")
with tf.GradientTape() as tape:
    loss = data.reduce(tf.constant(0.0), lambda total, y: total + (y - u) ** 2)  # <- here
print(float(loss), tape.gradient(loss, u))
