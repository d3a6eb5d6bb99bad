# from: https://github.com/tensorflow/tensorflow/issues/75351
# exit: 1
# says: the operation Cast makes int32 values of 'tokens', and only floating-point and complex ones have derivatives
# says: where an embedding takes integers, ask for the gradient of what it returns
# never: does not lead back
"""Saliency of a text model: its gradient with respect to the token ids, which the embedding makes integers of."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [keras.layers.Input((6,)), keras.layers.Embedding(20, 8), keras.layers.Flatten(), keras.layers.Dense(3)]
)
tokens = tf.constant(np.random.default_rng(0).integers(0, 20, (2, 6)).astype("float32"))
with tf.GradientTape() as tape:
    tape.watch(tokens)
    logits = model(tokens)  # <- here
    score = tf.reduce_sum(logits[:, 1])
print(tape.gradient(score, tokens))
