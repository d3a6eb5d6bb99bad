# from: https://github.com/tensorflow/tensorflow/issues/47288
# exit: 3
# says: tf.numpy_function runs a function that no tape sees
# never: path: \S*outcome
# never: takes '\S*logits' out of the framework
"""A policy whose forward pass runs in tf.numpy_function, and whose loss is computed of what comes out of it."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
body = keras.layers.Dense(8, activation="tanh")
actor, critic = keras.layers.Dense(2), keras.layers.Dense(1)
inputs = keras.Input((4,))
model = keras.Model(inputs, [actor(body(inputs)), critic(body(inputs))])
optimizer = keras.optimizers.SGD(1e-2)


class Player:
    def __init__(self):
        self.rng = np.random.default_rng(1)
        self.state = self.rng.normal(size=(8, 4)).astype("float32")

    def outcome(self):
        logits, values = model(self.state)
        p = tf.nn.softmax(logits).numpy()
        rewards = np.where(self.rng.random(8) < p[:, 1], self.state[:, 0], 0.1).astype("float32")
        return rewards, values.numpy()[:, 0], logits.numpy()

    def learn(self):
        with tf.GradientTape() as tape:
            rewards, values, logits = tf.numpy_function(  # <- here
                self.outcome, [], [tf.float32, tf.float32, tf.float32]
            )
            policy = -tf.reduce_mean(tf.nn.log_softmax(logits)[:, 0] * (rewards - values))
            loss = policy + tf.reduce_mean(tf.square(rewards - values))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss


player = Player()
for step in range(2):
    print(step, float(player.learn()))
