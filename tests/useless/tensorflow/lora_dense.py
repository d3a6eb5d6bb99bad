# from: https://keras.io/api/layers/core_layers/dense/
# truth: healthy: enable_lora() begins with one matrix of zeros, the other one's gradient is 0 in the first step only
# kind: healthy
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
dense = keras.layers.Dense(12, activation="relu")
model = keras.Sequential([keras.Input((6,)), dense, keras.layers.Dense(2)])
dense.enable_lora(rank=2)
model.layers[-1].trainable = False
optimizer = keras.optimizers.Adam(0.02)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
x = tf.random.normal((40, 6))
y = tf.cast(x[:, 0] > 0, tf.int32)
for step in range(4):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    print(step, float(loss))
