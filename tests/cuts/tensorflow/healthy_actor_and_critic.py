# from: own
# ask: explain
# kind: healthy
import numpy as np
import tensorflow as tf

tf.random.set_seed(0)
rng = np.random.default_rng(0)
policy, value = tf.Variable(tf.random.normal([3, 2])), tf.Variable(tf.random.normal([3, 1]))
for episode in range(3):
    states = tf.constant(rng.normal(size=(10, 3)), tf.float32)
    with tf.GradientTape() as tape:
        logits, expected = states @ policy, (states @ value)[:, 0]
        actions = tf.random.categorical(logits, 1)[:, 0]
        rewards = np.where(actions.numpy() == 1, 1.0, -0.5).astype(np.float32) + rng.normal(size=10).astype(np.float32)
        advantage = rewards - expected
        chosen = -tf.nn.sparse_softmax_cross_entropy_with_logits(actions, logits)
        loss = -tf.reduce_mean(chosen * tf.stop_gradient(advantage)) + tf.reduce_mean(advantage**2)
    for variable, slope in zip([policy, value], tape.gradient(loss, [policy, value]), strict=True):
        variable.assign_sub(0.05 * slope)
