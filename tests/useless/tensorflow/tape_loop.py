# from: https://www.tensorflow.org/guide/keras/writing_a_training_loop_from_scratch
# truth: healthy: a plain loop with a tape; some ReLU units are dead for a batch
# kind: healthy
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
inputs = keras.Input(shape=(12,), name="digits")
x1 = keras.layers.Dense(16, activation="relu")(inputs)
x2 = keras.layers.Dense(16, activation="relu")(x1)
model = keras.Model(inputs=inputs, outputs=keras.layers.Dense(4, name="predictions")(x2))
optimizer = keras.optimizers.SGD(learning_rate=0.05)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
y = np.arange(64) % 4
x = np.random.default_rng(0).normal(size=(64, 12)).astype("float32") + y[:, None]
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64, seed=0).batch(16)
for step, (x_batch, y_batch) in enumerate(dataset):
    with tf.GradientTape() as tape:
        loss = loss_fn(y_batch, model(x_batch, training=True))
    grads = tape.gradient(loss, model.trainable_weights)
    optimizer.apply_gradients(zip(grads, model.trainable_weights))
    print(step, float(loss))
