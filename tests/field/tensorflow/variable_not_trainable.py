# from: https://www.tensorflow.org/guide/autodiff
# exit: 1
# says: offset
# says: trainable=False
# never: does not lead back
"""A Variable that was made with `trainable=False` is not watched by a tape."""

import tensorflow as tf

x = tf.constant([[1.0], [2.0], [3.0]])
slope = tf.Variable(1.5, name="slope")
offset = tf.Variable(0.5, trainable=False, name="offset")
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((slope * x + offset - 3.0 * x - 1.0) ** 2)
    by_slope, by_offset = tape.gradient(loss, [slope, offset])
    slope.assign_sub(0.05 * by_slope)
    if by_offset is not None:
        offset.assign_sub(0.05 * by_offset)
print(by_offset)
