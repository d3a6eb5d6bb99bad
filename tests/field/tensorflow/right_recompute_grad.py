# from: https://github.com/joeyearsley/efficient_densenet_tensorflow/issues/5
# never: no_grad
# never: stop_recording
# never: got no gradient
import tensorflow as tf

tf.random.set_seed(0)
w1 = tf.Variable(tf.random.normal((3, 4), seed=1), name="w1")
w2 = tf.Variable(tf.random.normal((4, 1), seed=2), name="w2")


@tf.recompute_grad
def block(x):
    h = tf.tanh(x @ w1)
    return h @ w2


x = tf.random.normal((8, 3), seed=3)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((block(x) - 1.0) ** 2)
    gradients = tape.gradient(loss, [w1, w2])
    for variable, gradient in zip([w1, w2], gradients):
        variable.assign_sub(0.1 * gradient)
print([float(tf.norm(g)) for g in gradients])
