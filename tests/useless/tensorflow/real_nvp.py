# from: https://github.com/keras-team/keras-io/blob/master/examples/generative/real_nvp.py
# truth: healthy: the masks multiply half of each point by 0 in turn
# kind: healthy
import keras
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(0)
masks = tf.constant([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
scales = [keras.Sequential([keras.Input((2,)), layers.Dense(12, "relu"), layers.Dense(2, "tanh")]) for _ in range(3)]
shifts = [keras.Sequential([keras.Input((2,)), layers.Dense(12, "relu"), layers.Dense(2)]) for _ in range(3)]
variables = [v for net in (*scales, *shifts) for v in net.trainable_variables]
optimizer = keras.optimizers.Adam(5e-3)
for step in range(3):
    x = tf.random.normal((64, 2)) * [2.0, 0.5]
    with tf.GradientTape() as tape:
        z, log_det = x, 0.0
        for i in range(3):
            kept, free = z * masks[i], 1 - masks[i]
            s, t = scales[i](kept) * free, shifts[i](kept) * free
            z = free * (z * tf.exp(-s) - t * tf.exp(-s)) + kept
            log_det -= tf.reduce_sum(s, 1)
        loss = -tf.reduce_mean(-0.5 * tf.reduce_sum(z**2, 1) + log_det)
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    print(step, float(loss))
