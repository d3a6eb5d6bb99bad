# from: own
# never: got no gradient
import tensorflow as tf

w = tf.Variable([[0.5, -0.2], [0.1, 0.3]], name="w")


@tf.function
def unrolled(x):
    for _ in tf.range(3):
        x = tf.tanh(x @ w)
    return tf.reduce_sum(x**2)


x = tf.constant([[1.0, 2.0]])
for step in range(2):
    with tf.GradientTape() as tape:
        loss = unrolled(x)
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.1 * gradient)
print(gradient.numpy())
