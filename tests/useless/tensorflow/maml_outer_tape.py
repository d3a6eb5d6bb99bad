# from: https://github.com/dragen1860/MAML-TensorFlow
# truth: healthy: the inner step is inside of the outer tape, a gradient through a gradient
# kind: healthy
import tensorflow as tf

tf.random.set_seed(0)
w1, b1 = tf.Variable(tf.random.normal((1, 16), stddev=0.5)), tf.Variable(tf.zeros(16))
w2, b2 = tf.Variable(tf.random.normal((16, 1), stddev=0.5)), tf.Variable(tf.zeros(1))
meta = [w1, b1, w2, b2]


def forward(x, weights):
    a, b, c, d = weights
    return tf.nn.relu(x @ a + b) @ c + d


for step in range(3):
    with tf.GradientTape() as outer:
        losses = []
        for phase in (0.0, 1.0, 2.0):
            x = tf.random.uniform((10, 1), -3, 3)
            y = tf.sin(x + phase)
            with tf.GradientTape() as inner:
                inner.watch(meta)
                fit = tf.reduce_mean((forward(x[:5], meta) - y[:5]) ** 2)
            adapted = [v - 0.05 * g for v, g in zip(meta, inner.gradient(fit, meta))]
            losses.append(tf.reduce_mean((forward(x[5:], adapted) - y[5:]) ** 2))
        loss = tf.add_n(losses) / 3
    for v, g in zip(meta, outer.gradient(loss, meta)):
        v.assign_sub(0.02 * g)
    print(step, float(loss))
