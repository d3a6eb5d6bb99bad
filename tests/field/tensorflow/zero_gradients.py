# from: https://github.com/tensorflow/tensorflow/issues/3170
# exit: 1
# says: exactly (0|zero)|zero
# never: all \d+ Variables got a gradient
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(2)])
optimizer = keras.optimizers.Adam(1e-3)
x, boxes = tf.random.normal((8, 4), seed=1), tf.random.normal((8, 2), seed=2)
responsible = tf.cast(tf.zeros((8, 1)) > 0.5, tf.float32)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(responsible * (model(x) - boxes) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
print([float(tf.reduce_max(tf.abs(g))) for g in gradients])
