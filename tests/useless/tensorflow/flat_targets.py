# from: https://github.com/LaurentMazare/tch-rs/issues/510
# truth: the targets are [N] and the predictions [N, 1], and their difference is a table of N times N
# kind: outer product
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
x = tf.random.normal((50, 7))
y = x[:, 0] - 2.0 * x[:, 1]

model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.01)


@tf.function
def train_step(features, targets):
    with tf.GradientTape() as tape:
        predictions = model(features, training=True)
        loss = tf.reduce_mean(tf.square(targets - predictions))  # <- here
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(5):
    print(step, float(train_step(x, y)))
