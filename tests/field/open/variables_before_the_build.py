# from: https://github.com/tensorflow/tensorflow/issues/42984
# exit: 1
# says: (?i)built|build|empty|no Variables|0 Variables
# never: got a gradient
"""The list of Variables is taken when the model has none yet, and every step trains this empty list."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
trained = model.trainable_variables  # <- here
x = tf.random.normal((16, 3), seed=1)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - 1.0) ** 2)
    gradients = tape.gradient(loss, trained)
    for gradient, variable in zip(gradients, trained):
        variable.assign_sub(0.1 * gradient)
    print(step, float(loss), len(gradients))
