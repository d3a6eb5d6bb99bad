# from: own
# truth: the gate begins at 5, where the hard sigmoid is flat, so neither it nor the transform it shuts off ever moves
# kind: zero
# names: gate
import keras
import tensorflow as tf


class Highway(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.transform = keras.layers.Dense(units, activation="relu")

    def build(self, shape):
        start = keras.initializers.Constant(5.0)
        self.gate = self.add_weight(shape=(shape[-1],), initializer=start, name="gate")

    def call(self, x):
        share = tf.clip_by_value(0.2 * self.gate + 0.5, 0.0, 1.0)  # <- here
        return share * x + (1.0 - share) * self.transform(x)


keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((5,)), Highway(5), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.1)
x = tf.random.normal((32, 5))
y = tf.reduce_sum(tf.nn.relu(x), 1, keepdims=True)
for step in range(4):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    print(step, float(loss))
