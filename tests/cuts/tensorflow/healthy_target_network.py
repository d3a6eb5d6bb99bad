# from: own
# ask: explain
# kind: healthy
"""Targets come from a slow copy, whose weights are set from NumPy arrays."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
online = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)])
target = keras.models.clone_model(online)
target.set_weights(online.get_weights())
optimizer = keras.optimizers.Adam(1e-2)
before, after, reward = tf.random.normal([16, 4]), tf.random.normal([16, 4]), tf.random.normal([16])
action = tf.random.uniform([16], 0, 3, tf.int32)
for step in range(3):
    wanted = reward + 0.9 * tf.reduce_max(target(after), -1)
    with tf.GradientTape() as tape:
        q = tf.reduce_sum(online(before) * tf.one_hot(action, 3), -1)
        loss = tf.reduce_mean((q - tf.stop_gradient(wanted)) ** 2)
    sources = online.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, sources), sources, strict=True))
    target.set_weights([0.9 * old + 0.1 * new for old, new in zip(target.get_weights(), online.get_weights())])
