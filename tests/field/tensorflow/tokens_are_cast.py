# from: https://github.com/tensorflow/tensorflow/issues/75351
# ask: explain
# exit: 1
# says: (?i)cast
# says: int
# says: (?i)embedding
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [keras.Input((4,)), keras.layers.Embedding(10, 3), keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(2)]
)
tokens = tf.constant(np.arange(8).reshape(2, 4).astype("float32"))
with tf.GradientTape() as tape:
    tape.watch(tokens)
    score = tf.reduce_sum(model(tokens)[:, 0])
print(tape.gradient(score, tokens))
