# from: https://github.com/keras-team/keras-io/blob/master/examples/rl/actor_critic_cartpole.py
# truth: healthy: the returns differ within an episode, the critic has its own loss
# kind: healthy
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(42)
rng = np.random.default_rng(42)
inputs = keras.Input((3,))
common = keras.layers.Dense(24, activation="relu")(inputs)
model = keras.Model(inputs, [keras.layers.Dense(2, "softmax")(common), keras.layers.Dense(1)(common)])
optimizer, huber = keras.optimizers.Adam(0.01), keras.losses.Huber()
for episode in range(3):
    log_probs, values, rewards = [], [], []
    with tf.GradientTape() as tape:
        for _ in range(8):
            state = rng.normal(size=(1, 3)).astype("float32")
            probs, value = model(state)
            action = rng.choice(2, p=np.squeeze(probs) / np.sum(probs))
            log_probs.append(tf.math.log(probs[0, action]))
            values.append(value[0, 0])
            rewards.append(float(action == (state[0, 0] > 0)))
        returns = np.array([sum(0.9 ** (j - i) * rewards[j] for j in range(i, 8)) for i in range(8)], "float32")
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        actor = [-lp * (ret - tf.stop_gradient(v)) for lp, v, ret in zip(log_probs, values, returns)]
        critic = [huber([v], [ret]) for v, ret in zip(values, returns)]
        loss = tf.add_n(actor) + tf.add_n(critic)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    print(episode, sum(rewards))
