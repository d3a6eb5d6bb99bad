# from: https://www.tensorflow.org/guide/mixed_precision
# truth: healthy: layers compute in bfloat16 while their variables and the steps stay in float32
# kind: healthy
import keras
import numpy as np

keras.utils.set_random_seed(0)
keras.mixed_precision.set_global_policy("mixed_bfloat16")
x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
y = (x[:, 0] > 0).astype("int64")
inputs = keras.Input((6,))
h = keras.layers.Dense(16, activation="relu")(inputs)
outputs = keras.layers.Activation("softmax", dtype="float32")(keras.layers.Dense(2)(h))
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
print(model.fit(x, y, epochs=3, batch_size=32, verbose=0).history["loss"])
