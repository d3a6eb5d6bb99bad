# from: https://keras.io/guides/custom_train_step_in_tensorflow/
# exit: 1
# says: no gradient
# says: tracker|result|metric
# never: tape\.watch
"""The step differentiates what the metric returns: a mean kept in Variables, to which the loss was assigned."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)


class Averaged(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)
        self.tracker = keras.metrics.Mean(name="loss")

    def call(self, x):
        return self.head(self.hidden(x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            self.tracker.update_state(tf.reduce_mean((self(x, training=True) - y) ** 2))  # <- here
            loss = self.tracker.result()
        gradients = tape.gradient(loss, self.trainable_variables)
        for gradient, variable in zip(gradients, self.trainable_variables):
            if gradient is not None:
                variable.assign_sub(0.1 * gradient)
        return {"loss": loss}


model = Averaged()
model.compile()
x = tf.random.normal((16, 3), seed=1)
model.fit(x, tf.reduce_sum(x, 1, keepdims=True), epochs=2, verbose=0)
