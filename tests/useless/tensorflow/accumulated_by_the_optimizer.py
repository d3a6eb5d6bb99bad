# from: https://keras.io/api/optimizers/adam/
# truth: healthy: with gradient_accumulation_steps=4 the weights move with every fourth step alone
# kind: healthy
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(16, activation="gelu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(1e-2, gradient_accumulation_steps=4)
x = tf.random.normal((64, 5))
y = tf.reduce_prod(tf.math.tanh(x[:, :2]), axis=1, keepdims=True)
for step in range(8):
    rows = slice(8 * step, 8 * step + 8)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x[rows]) - y[rows]))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    print(step, float(loss))
