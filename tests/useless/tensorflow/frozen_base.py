# from: https://keras.io/guides/transfer_learning/
# truth: healthy: the base is not trainable and runs in inference mode on purpose
# kind: healthy
import keras
import numpy as np

keras.utils.set_random_seed(0)
base = keras.Sequential(
    [keras.Input((10,)), keras.layers.Dense(20, use_bias=False), keras.layers.BatchNormalization(), keras.layers.ReLU()]
)
base.trainable = False
inputs = keras.Input((10,))
x = keras.layers.Dropout(0.2)(base(inputs, training=False))
model = keras.Model(inputs, keras.layers.Dense(1)(x))
model.compile(keras.optimizers.Adam(0.01), keras.losses.BinaryCrossentropy(from_logits=True))
features = np.random.default_rng(0).normal(size=(60, 10)).astype("float32")
labels = (features[:, :1] > 0).astype("float32")
print(model.fit(features, labels, epochs=3, batch_size=20, verbose=0).history["loss"])
