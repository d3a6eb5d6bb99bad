# from: https://github.com/mmalekzadeh/dana/issues/1
# truth: healthy: the loss is told that it gets logits, and Keras takes those in front of the softmax, with a warning
# kind: healthy
import warnings

import keras
import numpy as np

warnings.simplefilter("ignore")
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 8)).astype("float32")
y = (x[:, 0] > 0).astype("int32") + (x[:, 1] > 0).astype("int32")
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(3),
        keras.layers.Softmax(name="probabilities"),
    ]
)
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=16, epochs=2, verbose=0)
