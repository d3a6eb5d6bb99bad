# from: https://www.tensorflow.org/guide/autodiff
# exit: 1
# says: scale
# never: tape\.watch
"""A learned scale is applied in `Dataset.map`: what comes out of the pipeline has no history."""

import tensorflow as tf

scale = tf.Variable(2.0, name="scale")
w = tf.Variable([0.1, 0.2, 0.3], name="w")
x = tf.random.normal((12, 3), seed=1)
data = tf.data.Dataset.from_tensor_slices(x).map(lambda row: row * scale).batch(4)  # <- here
for step, batch in enumerate(data):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(batch, w) - 1.0) ** 2)
    by_scale, by_w = tape.gradient(loss, [scale, w])
    w.assign_sub(0.1 * by_w)
print(by_scale)
