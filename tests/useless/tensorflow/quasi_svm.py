# from: https://github.com/keras-team/keras-io/blob/master/examples/keras_recipes/quasi_svm.py
# truth: healthy: random Fourier features are fixed on purpose, and a hinge leaves satisfied samples alone
# kind: healthy
import keras
import tensorflow as tf


class RandomFeatures(keras.layers.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], 64), initializer="random_normal", trainable=False, name="w")
        self.b = self.add_weight(shape=(64,), initializer="random_uniform", trainable=False, name="b")

    def call(self, x):
        return tf.cos(20.0 * x @ self.w + 60.0 * self.b) / 5.6


keras.utils.set_random_seed(0)
x = tf.random.normal((80, 3))
y = tf.one_hot(tf.argmax(x, 1), 3) * 2 - 1
model = keras.Sequential([keras.Input((3,)), RandomFeatures(), keras.layers.Dense(3)])
model.compile(keras.optimizers.Adam(0.02), loss=keras.losses.hinge)
print(model.fit(x, y, epochs=4, batch_size=20, verbose=0).history["loss"])
