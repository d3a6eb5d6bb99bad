# from: own
# ask: explain --nonfinite
# exit: 0
# never: diverge
"""The same line through numbers that are scaled: no step overshoots."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras  # noqa: E402
import numpy as np  # noqa: E402

keras.utils.set_random_seed(0)
sales = np.linspace(-1, 1, 40, dtype="float32").reshape(-1, 1)
spent = 0.05 * sales + 7
entry = keras.Input(shape=(1,))
line = keras.Model(entry, keras.layers.Dense(1, activation="linear")(entry))
line.compile(optimizer=keras.optimizers.SGD(), loss="mse")
line.fit(sales, spent, batch_size=8, epochs=2, shuffle=False, verbose=0)
