# from: https://www.tensorflow.org/guide/keras/understanding_masking_and_padding
# truth: healthy: the embedding masks the padding, an LSTM skips it
# kind: healthy
import keras
import numpy as np

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
raw = [rng.integers(1, 20, size=n) for n in rng.integers(2, 7, size=48)]
ids = keras.utils.pad_sequences(raw, padding="post")
label = np.array([float(r[0] > 10) for r in raw])
model = keras.Sequential(
    [
        keras.Input((None,), dtype="int32"),
        keras.layers.Embedding(20, 8, mask_zero=True),
        keras.layers.LSTM(8),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), loss="binary_crossentropy")
print(model.fit(ids, label, epochs=3, batch_size=16, verbose=0).history["loss"])
