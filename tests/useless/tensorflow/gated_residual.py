# from: https://github.com/keras-team/keras-io/blob/master/examples/structured_data/classification_with_grn_and_vsn.py
# truth: healthy: softmax weights over several variables, sigmoid gates, layer norms
# kind: healthy
import keras
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(0)
inputs = keras.Input((4,))
columns = [layers.Dense(8)(inputs[:, i : i + 1]) for i in range(4)]
joined = layers.Concatenate()(columns)
h = layers.Dropout(0.1)(layers.Dense(8)(layers.Dense(8, activation="elu")(joined)))
h = layers.LayerNormalization()(layers.Dense(8)(joined) + layers.Dense(8, "sigmoid")(h) * layers.Dense(8)(h))
weights = layers.Dense(4, activation="softmax")(h)
stacked = layers.Concatenate(axis=1)([layers.Reshape((1, 8))(c) for c in columns])
chosen = layers.Dot(axes=1)([layers.Reshape((4, 1))(weights), stacked])
outputs = layers.Dense(1, activation="sigmoid")(layers.Flatten()(chosen))
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
x = tf.random.normal((64, 4))
y = tf.cast(x[:, 2:3] > 0, tf.float32)
print(model.fit(x, y, epochs=3, batch_size=32, verbose=0).history["loss"])
