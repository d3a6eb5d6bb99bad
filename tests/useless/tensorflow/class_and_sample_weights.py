# from: https://www.tensorflow.org/tutorials/structured_data/imbalanced_data
# truth: healthy: rare samples weigh more and broken rows weigh 0, the others train
# kind: healthy
import keras
import numpy as np

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(100, 6)).astype("float32")
y = (x[:, 0] > 1.2).astype("float32")
positive, total = y.sum(), len(y)
weights = np.where(y == 1, total / (2 * positive), total / (2 * (total - positive)))
weights[::7] = 0.0
bias = keras.initializers.Constant(np.log(positive / (total - positive)))
model = keras.Sequential(
    [keras.Input((6,)), keras.layers.Dense(12, "relu"), keras.layers.Dense(1, "sigmoid", bias_initializer=bias)]
)
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
print(model.fit(x, y, sample_weight=weights, epochs=3, batch_size=25, verbose=0).history["loss"])
