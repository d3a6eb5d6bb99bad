# from: https://stackoverflow.com/questions/61570051
# exit: 1
# says: (?i)head|dense
# says: \bnew\b|made|again
"""The head is made within the step, at random each time: no optimizer ever has it."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
body = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5, activation="tanh")])
optimizer = keras.optimizers.SGD(0.1)
x = tf.random.normal((16, 3), seed=1)
y = tf.reduce_sum(x, 1, keepdims=True)
for step in range(3):
    with tf.GradientTape() as tape:
        predicted = keras.layers.Dense(1, name="head")(body(x))  # <- here
        loss = tf.reduce_mean((predicted - y) ** 2)
    gradients = tape.gradient(loss, body.trainable_variables)
    optimizer.apply_gradients(zip(gradients, body.trainable_variables))
print(float(loss))
