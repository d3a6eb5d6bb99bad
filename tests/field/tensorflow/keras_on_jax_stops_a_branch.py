# from: https://keras.io/guides/custom_train_step_in_jax/
# exit: 1
# says: encoder
# says: stop_gradient
# never: core\.py
"""Keras on JAX: a layer stops what its encoder has made, which was right for a frozen encoder only."""

import os

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

keras.utils.set_random_seed(0)


class Probed(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.layers.Dense(6, activation="tanh", name="encoder")
        self.head = keras.layers.Dense(1, name="head")

    def call(self, x):
        features = keras.ops.stop_gradient(self.encoder(x))  # <- here
        return self.head(features)


model = Probed()
model.compile(optimizer="sgd", loss="mse")
x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
model.fit(x, x.sum(1, keepdims=True), batch_size=16, epochs=1, verbose=0)
