# from: https://github.com/hiranumn/IntegratedGradients/issues/5
# exit: 1
# says: [Cc]ast|integer|int32|int64
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
inputs = keras.Input((5,))
h = keras.layers.Embedding(12, 4, name="words")(inputs)
outputs = keras.layers.Dense(2)(keras.layers.GlobalMaxPooling1D()(h))
model = keras.Model(inputs, outputs)
tokens = tf.constant([[1.0, 4.0, 7.0, 2.0, 0.0]])
with tf.GradientTape() as tape:
    tape.watch(tokens)
    score = model(tokens)[0, 1]
print("saliency of the words:", tape.gradient(score, tokens))
