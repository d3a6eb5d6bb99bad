# from: https://keras.io/examples/vision/gradient_centralization/
# truth: healthy: the optimizer takes the mean away from each gradient before it uses it
# kind: healthy
import keras
import tensorflow as tf
from keras import layers, ops


class GCRMSprop(keras.optimizers.RMSprop):
    def apply_gradients(self, grads_and_vars):
        centred = []
        for gradient, variable in grads_and_vars:
            if len(gradient.shape) > 1:
                gradient -= ops.mean(gradient, axis=list(range(len(gradient.shape) - 1)), keepdims=True)
            centred.append((gradient, variable))
        return super().apply_gradients(centred)


keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((12, 12, 1)),
        layers.Conv2D(6, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Conv2D(8, 3, activation="relu"),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(1, activation="sigmoid"),
    ]
)
optimizer = GCRMSprop(1e-3)
criterion = keras.losses.BinaryCrossentropy()
images = tf.random.uniform((16, 12, 12, 1))
labels = tf.cast(tf.reduce_mean(images, (1, 2)) > 0.5, tf.float32)
for step in range(4):
    with tf.GradientTape() as tape:
        loss = criterion(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    print(step, float(loss))
