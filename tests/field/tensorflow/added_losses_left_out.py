# from: own
# exit: 1
# says: temperature
# never: all \d+ Variables got
import keras
import tensorflow as tf


class Tempered(keras.layers.Layer):
    def build(self, shape):
        self.temperature = self.add_weight(shape=(), initializer="ones", name="temperature")

    def call(self, x):
        self.add_loss(0.1 * tf.square(self.temperature - 2.0))
        return tf.nn.softmax(x)


keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), Tempered()])
optimizer = keras.optimizers.SGD(0.1)
x, y = tf.random.normal((8, 3), seed=1), tf.random.uniform((8,), 0, 4, tf.int32, seed=2)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients([(g, v) for g, v in zip(gradients, model.trainable_variables) if g is not None])
print([(v.path, g is None) for g, v in zip(gradients, model.trainable_variables)], len(model.losses))
