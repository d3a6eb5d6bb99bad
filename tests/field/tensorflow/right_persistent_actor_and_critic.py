# from: https://www.tensorflow.org/guide/autodiff
# exit: 0
# never: got no gradient|exactly 0|useless
"""One persistent tape for two losses: each is differentiated by its own Variables alone, within a function."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
trunk = keras.Sequential([keras.Input((3,)), keras.layers.Dense(6, activation="tanh")])
actor, critic = keras.layers.Dense(2, name="actor"), keras.layers.Dense(1, name="critic")
actor.build((None, 6))
critic.build((None, 6))
by_actor, by_critic = keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01)


@tf.function
def step(x, action, reward):
    with tf.GradientTape(persistent=True) as tape:
        h = trunk(x)
        value = critic(h)[:, 0]
        advantage = reward - tf.stop_gradient(value)
        chosen = tf.gather(tf.nn.log_softmax(actor(h)), action, batch_dims=1)
        policy_loss = -tf.reduce_mean(chosen * advantage)
        value_loss = tf.reduce_mean((reward - value) ** 2)
    of_actor = trunk.trainable_variables + actor.trainable_variables
    by_actor.apply_gradients(zip(tape.gradient(policy_loss, of_actor), of_actor))
    of_critic = critic.trainable_variables
    by_critic.apply_gradients(zip(tape.gradient(value_loss, of_critic), of_critic))
    del tape


x = tf.random.normal((8, 3), seed=1)
for turn in range(2):
    step(x, tf.range(8) % 2, tf.reduce_sum(x, 1))
