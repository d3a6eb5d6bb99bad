# from: https://github.com/keras-team/keras-hub/issues/2629
# truth: all weights are bfloat16 and the updates of this learning rate are lost in rounding, no weight ever changes
# kind: step changes nothing
# names: bfloat16
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(5)
rng = np.random.default_rng(2)
x, y = rng.normal(size=(48, 6)), rng.integers(0, 3, 48)
model = keras.Sequential(
    [
        keras.Input((6,), dtype="bfloat16"),
        keras.layers.Dense(12, activation="relu", use_bias=False, dtype="bfloat16"),
        keras.layers.Dense(3, use_bias=False, dtype="bfloat16"),
    ]
)
optimizer = keras.optimizers.SGD(learning_rate=1e-6)
criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
before = [variable.numpy().copy() for variable in model.trainable_variables]
for epoch in range(3):
    with tf.GradientTape() as tape:
        loss = criterion(y, tf.cast(model(tf.cast(x, tf.bfloat16)), tf.float32))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # <- here
    print(epoch, float(loss))
print([int((old != new.numpy()).sum()) for old, new in zip(before, model.trainable_variables)])
