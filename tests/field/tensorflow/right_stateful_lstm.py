# from: https://keras.io/guides/working_with_rnns/
# exit: 0
# never: got no gradient|useless|exactly 0|detach|assign
"""A stateful LSTM: its states go on from batch to batch as numbers, which is how it is meant."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
rnn = keras.layers.LSTM(5, stateful=True)
model = keras.Sequential([keras.Input((4, 2), batch_size=3), rnn, keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.01)
series = tf.random.normal((3, 12, 2), seed=1)
for epoch in range(2):
    rnn.reset_state()
    for chunk in tf.split(series, 3, axis=1):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(chunk, training=True) - chunk[:, -1, :1]) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
print(float(loss))
