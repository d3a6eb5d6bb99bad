# from: https://keras.io/guides/making_new_layers_and_models_via_subclassing/
# ask: explain --nonfinite
# birth: forward
# name: mean
# operands: 0.0 / 0.0
# value: [v for v in model.trainable_variables]
import keras
import numpy as np
import tensorflow as tf


class MeanOfTokens(keras.layers.Layer):
    def call(self, embedded, present):
        total = tf.reduce_sum(embedded * present[..., None], axis=1)
        count = tf.reduce_sum(present, axis=1, keepdims=True)
        mean = total / count  # <- here
        return mean


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.embed, self.pool, self.out = keras.layers.Embedding(9, 4), MeanOfTokens(), keras.layers.Dense(1)

    def call(self, words):
        present = tf.cast(words > 0, tf.float32)
        return self.out(self.pool(self.embed(words), present))


keras.utils.set_random_seed(0)
model = Model()
model.compile(optimizer="sgd", loss="mse", run_eagerly=True)
words, y = np.array([[1, 2, 0], [0, 0, 0], [3, 4, 5], [6, 0, 0]]), np.ones((4, 1), np.float32)
model.fit(words, y, batch_size=2, epochs=1, shuffle=False, verbose=0)
