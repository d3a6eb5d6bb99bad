# from: https://github.com/tensorflow/tensorflow/issues/47288
# ask: explain
# exit: 3
# says: tf\.numpy_function
# never: goes into .* through
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
policy = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(2)])
optimizer = keras.optimizers.Adam()
states = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")


def rollout():
    logits = policy(states)
    actions = tf.argmax(logits, -1, output_type=tf.int32).numpy()
    return logits.numpy(), actions, (actions == 1).astype("float32")


def train_step():
    with tf.GradientTape() as tape:
        logits, actions, rewards = tf.numpy_function(rollout, [], [tf.float32, tf.int32, tf.float32])  # <- here
        chosen = tf.gather_nd(tf.nn.log_softmax(logits), tf.stack([tf.range(5), actions], axis=1))
        loss = -tf.reduce_mean(chosen * rewards)
    grads = tape.gradient(loss, policy.trainable_variables)
    optimizer.apply_gradients(zip(grads, policy.trainable_variables, strict=True))


for _ in range(2):
    train_step()
