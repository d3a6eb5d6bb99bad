"""Trainings that were new to the rules when they were written: triplets, and smoothed labels."""

import keras
import tensorflow as tf

from trainings.planted import Fault
from trainings.with_tensorflow import Training, optimizer_of, seeded

HEALTHY = {"triplets": {"kind": "triplets"}, "smoothed labels, cosine restarts": {"kind": "smoothed"}}
FAULTY = {
    "triplets, no unit is over zero": {"kind": "triplets", "fault": Fault("dead")},
    "smoothed labels, softmax twice": {"kind": "smoothed", "twice": True, "fault": Fault("softmax_twice", 0)},
}


def make(seed, kind, twice=False):
    generator = seeded(seed)
    if kind == "triplets":
        return triplets(generator)
    last = [keras.layers.Lambda(tf.nn.softmax)] if twice else []  # of its own Softmax Keras takes the logits
    model = keras.Sequential([keras.layers.Dense(24, "relu"), keras.layers.Dense(4), *last])
    model.build((None, 6))
    weights = generator.normal([6, 4])
    rates = keras.optimizers.schedules.CosineDecayRestarts(5e-3, 25)
    lossy = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1, reduction=None)

    def draw(step):
        x = generator.normal([32, 6])
        return x, tf.one_hot(tf.argmax(x @ weights, -1), 4)

    return Training(model, keras.optimizers.Adam(rates), draw, lambda x, y: lossy(y, model(x, training=True)))


def triplets(generator):
    """Samples of one class come nearer to one another than to those of the other, by a margin."""
    model = keras.Sequential([keras.layers.Dense(24, "relu"), keras.layers.Dense(4)])
    model.build((None, 5))
    centres = generator.normal([2, 5])

    def near(label):
        return tf.gather(centres, label) + 0.7 * generator.normal([len(label), 5])

    def draw(step):
        label = generator.uniform([32], 0, 2, tf.int32)
        return near(label), near(label), near(1 - label)

    def each(anchor, like, unlike):
        anchor, like, unlike = (model(x, training=True) for x in (anchor, like, unlike))
        apart = tf.reduce_sum((anchor - like) ** 2, -1) - tf.reduce_sum((anchor - unlike) ** 2, -1)
        return tf.nn.relu(apart + 1.0)

    def silence():
        model.layers[0].bias.assign(tf.fill([24], -50.0))

    return Training(model, optimizer_of("adam"), draw, each, plant={"dead": silence})
