# from: https://github.com/keras-team/keras-io/blob/master/examples/vision/mnist_convnet.py
# truth: healthy: softmax at the end and categorical_crossentropy of probabilities belong together
# kind: healthy
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(0)
y = np.arange(40) % 4
x = np.random.default_rng(0).normal(size=(40, 8, 8, 1)).astype("float32") + y[:, None, None, None]
model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        layers.Conv2D(6, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(4, activation="softmax"),
    ]
)
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(x, keras.utils.to_categorical(y, 4), batch_size=20, epochs=3, verbose=0)
print(history.history["loss"])
