# from: https://keras.io/guides/transfer_learning/
# ask: explain --steps 4
# exit: 3
# says: Unknown variable: \S+ path=base
# says: only without compiling
"""The second phase is to tune the base as well, but the traced step is that of the first: nothing of it moves."""

import keras
import numpy as np

keras.utils.set_random_seed(0)
base = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, activation="tanh")], name="base")
base.trainable = False
model = keras.Sequential([base, keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
y = x.sum(1, keepdims=True)
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
before = base.get_weights()[0].copy()
base.trainable = True
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
print(abs(base.get_weights()[0] - before).max())
