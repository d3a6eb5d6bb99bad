# from: https://keras.io/api/callbacks/early_stopping/
# ask: explain --nonfinite
# birth: healthy
import keras
import numpy as np

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", run_eagerly=True)
x = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
stop = keras.callbacks.EarlyStopping(monitor="loss", patience=2)
model.fit(x, x[:, :1], batch_size=8, epochs=3, verbose=0, callbacks=[stop])
