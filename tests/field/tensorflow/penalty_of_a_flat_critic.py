# from: https://github.com/keras-team/keras-io/issues/910
# ask: explain --nonfinite
# exit: 1
# says: (?i)nan|inf
# says: sqrt|Sqrt
"""A gradient penalty where the critic is flat: the norm of a gradient that is 0 has no slope."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
critic = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, activation="relu", name="h"), keras.layers.Dense(1)])
critic.get_layer("h").bias.assign(-50.0 * tf.ones(6))
optimizer = keras.optimizers.Adam(1e-4)
real, fake = tf.random.normal((8, 5), seed=1), tf.random.normal((8, 5), seed=2)


def penalty_of(real, fake):
    alpha = tf.random.uniform((8, 1), seed=3)
    mixed = real + alpha * (fake - real)
    with tf.GradientTape() as inner:
        inner.watch(mixed)
        score = critic(mixed, training=True)
    slopes = inner.gradient(score, mixed)
    norm = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=1))  # <- here
    return tf.reduce_mean((norm - 1.0) ** 2)


for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real)) + 10.0 * penalty_of(real, fake)
    gradients = tape.gradient(loss, critic.trainable_variables)
    optimizer.apply_gradients(zip(gradients, critic.trainable_variables))
print([bool(tf.reduce_any(tf.math.is_nan(g))) for g in gradients])
