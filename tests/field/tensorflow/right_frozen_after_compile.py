# from: https://github.com/keras-team/keras/pull/22413
# exit: 0
# never: useless|exactly 0|base\S* got no gradient|got no gradient
"""The base is frozen after `compile` and before the first `fit`: Keras 3 reads the flag when it traces."""

import keras
import numpy as np

keras.utils.set_random_seed(0)
base = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, activation="tanh")], name="base")
model = keras.Sequential([base, keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
base.trainable = False
x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
model.fit(x, x.sum(1, keepdims=True), batch_size=16, epochs=1, verbose=0)
