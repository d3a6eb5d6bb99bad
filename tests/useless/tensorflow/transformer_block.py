# from: https://github.com/keras-team/keras-io/blob/master/examples/nlp/text_classification_with_transformer.py
# truth: healthy: attention, layer norms and dropout; positions that no text has keep no gradient
# kind: healthy
import keras
import numpy as np
from keras import layers, ops


class TokenAndPosition(layers.Layer):
    def __init__(self, length, words, d):
        super().__init__()
        self.token, self.position = layers.Embedding(words, d), layers.Embedding(length, d)

    def call(self, x):
        return self.token(x) + self.position(ops.arange(0, x.shape[-1]))


keras.utils.set_random_seed(0)
ids = np.random.default_rng(0).integers(0, 15, (48, 6))
label = (ids == 3).any(1).astype("int64")
inputs = layers.Input((6,), dtype="int32")
x = TokenAndPosition(10, 15, 12)(inputs)
x = layers.LayerNormalization(epsilon=1e-6)(x + layers.MultiHeadAttention(2, 6)(x, x))
y = layers.Dense(12)(layers.Dense(24, activation="relu")(x))
x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(0.1)(y))
outputs = layers.Dense(2, activation="softmax")(layers.GlobalAveragePooling1D()(x))
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(0.005), "sparse_categorical_crossentropy")
print(model.fit(ids, label, batch_size=16, epochs=3, verbose=0).history["loss"])
