# from: https://www.tensorflow.org/tutorials/quickstart/beginner
# truth: healthy: the loss takes logits, and a softmax is added for predictions after the training only
# kind: healthy
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(1)
y = np.arange(60) % 3
x = np.random.default_rng(1).uniform(size=(60, 5, 5)).astype("float32") + y[:, None, None] / 3
model = tf.keras.Sequential(
    [
        tf.keras.Input((5, 5)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dropout(0.2),
        tf.keras.layers.Dense(3),
    ]
)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer="adam", loss=loss_fn, metrics=["accuracy"])
print(model.fit(x, y, epochs=3, verbose=0).history["loss"])
print(tf.nn.softmax(model(x[:2])).numpy())
