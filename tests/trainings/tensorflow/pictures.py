"""A convolutional Keras model, with and without batch norm and dropout."""

import keras
import tensorflow as tf

from trainings.planted import faults, grid
from trainings.with_tensorflow import Training, optimizer_of, seeded

HEALTHY = grid(norm=[False, True], optimizer=["adam", "momentum"], dropout=[0.0, 0.3])
FAULTY = faults("learning_rate", "wrong_sign", "no_step", "wrong_labels", "zero_gradients", rise=300.0)


def make(seed, norm=False, optimizer="adam", dropout=0.0):
    generator = seeded(seed)
    middle = [keras.layers.BatchNormalization()] if norm else []
    model = keras.Sequential(
        [
            keras.layers.Conv2D(6, 3),
            *middle,
            keras.layers.Activation("relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(3),
        ]
    )
    model.build((None, 6, 6, 1))
    lossy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def draw(step):
        labels = generator.uniform([16], 0, 3, tf.int32)
        rows = tf.cast(tf.range(6) % 2, tf.float32)
        stripes = tf.stack([tf.tile(rows[:, None], [1, 6]), tf.tile(rows[None], [6, 1]), tf.zeros([6, 6])])
        return (tf.gather(stripes, labels) + 0.5 * generator.normal([16, 6, 6]))[..., None], labels

    return Training(model, optimizer_of(optimizer), draw, lambda x, y: lossy(y, model(x, training=True)))
