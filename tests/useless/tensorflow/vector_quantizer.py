# from: https://github.com/keras-team/keras-io/blob/master/examples/generative/vq_vae.py
# truth: healthy: straight through the choice of a code; codes that nobody chose have a gradient of 0 in that step
# kind: healthy
import keras
import tensorflow as tf


class Quantizer(keras.layers.Layer):
    def build(self, shape):
        self.codes = self.add_weight(shape=(shape[-1], 10), initializer="random_uniform", name="codes")

    def call(self, x):
        distance = tf.reduce_sum(x**2, 1, keepdims=True) + tf.reduce_sum(self.codes**2, 0) - 2 * x @ self.codes
        q = tf.matmul(tf.one_hot(tf.argmin(distance, 1), 10), self.codes, transpose_b=True)
        self.add_loss(0.25 * tf.reduce_mean((tf.stop_gradient(q) - x) ** 2))
        self.add_loss(tf.reduce_mean((q - tf.stop_gradient(x)) ** 2))
        return x + tf.stop_gradient(q - x)


keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3), Quantizer(), keras.layers.Dense(6)])
model.compile(keras.optimizers.Adam(0.01), loss="mse")
x = tf.gather(tf.random.normal((4, 6)), tf.random.uniform((64,), 0, 4, tf.int32))
print(model.fit(x, x, epochs=3, batch_size=32, verbose=0).history["loss"])
