# from: https://stats.stackexchange.com/questions/284189/simple-linear-regression-in-keras
# ask: explain --nonfinite
# exit: 1
# says: (?i)diverg|grew|grow|learning rate|step
# never: 0/0|log\(0\)
# says: next: a smaller learning rate; or the optimizer.s clipnorm=1.0
# never: next: bp.probe
"""A line through large numbers that are not scaled: each step of SGD overshoots by more than the one before."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras  # noqa: E402
import numpy as np  # noqa: E402

keras.utils.set_random_seed(0)
sales = np.linspace(20, 300, 40, dtype="float32").reshape(-1, 1)
spent = 0.05 * sales + 7
entry = keras.Input(shape=(1,))
line = keras.Model(entry, keras.layers.Dense(1, activation="linear")(entry))
line.compile(optimizer=keras.optimizers.SGD(), loss="mse")
line.fit(sales, spent, batch_size=1, epochs=2, shuffle=False, verbose=0)
print(line.evaluate(sales, spent, verbose=0))
