# from: https://github.com/tensorflow/tensorflow/issues/26404
# exit: 1
# says: moving_mean
# says: trainable
# never: does not lead back
"""`model.variables` has the running statistics of a BatchNormalization, of which a loss in training has no gradient."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.05)
x = tf.random.normal((16, 3), seed=1)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.tanh(model(x, training=True)) - 0.3) ** 2)
    gradients = tape.gradient(loss, model.variables)
    optimizer.apply_gradients([(g, v) for g, v in zip(gradients, model.variables) if g is not None])
print([v.path for g, v in zip(gradients, model.variables) if g is None])
