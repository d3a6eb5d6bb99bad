# from: own
# ask: explain --nonfinite
# exit: 1
# says: the training diverges
# says: next: a smaller learning rate; or the optimizer.s clipnorm=1.0
# never: next: bp.probe
"""Two layers of Keras at a rate of 3: the loss grows from step to step until it overflows."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras  # noqa: E402
import numpy as np  # noqa: E402

keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(64, 16)).astype("float32")
y = x[:, :1] * 2
model = keras.Sequential([keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(3.0), loss="mse")
model.fit(x, y, batch_size=64, epochs=40, shuffle=False, verbose=0)
