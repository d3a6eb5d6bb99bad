# from: https://github.com/keras-team/keras-io/blob/master/examples/vision/captcha_ocr.py
# truth: healthy: the CTC loss takes raw scores and normalises them itself
# kind: healthy
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
sound = rng.normal(size=(8, 10, 5)).astype("float32")
labels = rng.integers(1, 4, (8, 3))
lengths = np.full(8, 3)
model = keras.Sequential(
    [
        keras.Input((10, 5)),
        keras.layers.Bidirectional(keras.layers.LSTM(6, return_sequences=True)),
        keras.layers.Dense(4),
    ]
)
optimizer = keras.optimizers.Adam(0.02)
for step in range(3):
    with tf.GradientTape() as tape:
        logits = model(sound)
        each = tf.nn.ctc_loss(
            tf.constant(labels, tf.int32), logits, lengths, np.full(8, 10), logits_time_major=False, blank_index=0
        )
        loss = tf.reduce_mean(each)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    print(step, float(loss))
