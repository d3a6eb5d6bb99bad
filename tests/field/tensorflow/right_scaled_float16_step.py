# from: https://www.tensorflow.org/guide/mixed_precision
# exit: 0
# never: got no gradient|exactly 0|useless|underflow|NaN
"""A step of its own under float16: the loss is scaled by the optimizer, which divides the gradients itself."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
keras.config.set_dtype_policy("mixed_float16")
model = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1, dtype="float32")]
)
keras.config.set_dtype_policy("float32")
optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=1024.0)
optimizer.build(model.trainable_variables)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        scaled = optimizer.scale_loss(loss)
    optimizer.apply_gradients(zip(tape.gradient(scaled, model.trainable_variables), model.trainable_variables))
    return loss


x = tf.random.normal((16, 4), seed=1)
for turn in range(3):
    print(float(step(x, tf.reduce_sum(x, 1, keepdims=True))))
