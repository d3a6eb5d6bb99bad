"""A program that takes its next batch from a dataset or a generator that it holds is not run again."""

import itertools

import equinox as eqx
import jax.numpy as jnp
import keras
import pytest
import tensorflow as tf
from flax import nnx

import backprobe as bp
from outside import note, noted

ROWS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_of_a_dataset_of_tensorflow():
    batches = iter(tf.data.Dataset.from_tensor_slices(ROWS).batch(1))

    def taking(x):
        return tf.reduce_sum(x * next(batches))

    with pytest.raises(bp.Unsupported, match="the first run took from an OwnedIterator"):
        bp.noise_floor(taking)(tf.constant([1.0]))
    assert float(next(batches)[0]) == 2.0
    assert bp.noise_floor(lambda x, batch: tf.reduce_sum(x * batch))(tf.constant([1.0]), next(batches))


def test_of_a_generator_in_jax():
    batches = (jnp.array([one]) for one in ROWS)

    def taking(x):
        return jnp.sum(x * next(batches))

    with pytest.raises(bp.Unsupported, match="the first run took from a generator"):
        bp.noise_floor(taking)(jnp.ones(1))
    assert float(next(batches)[0]) == 2.0


def numbered(model, value):
    """The value times the next number of a model, which is noted."""
    number = next(model.numbers)
    note(number)
    return value * number


class OfKeras(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.numbers = itertools.count(1)

    def call(self, x):
        return numbered(self, tf.reduce_sum(x))


class OfFlax(nnx.Module):
    def __init__(self):
        self.numbers = itertools.count(1)

    def __call__(self, x):
        return numbered(self, x.sum())


class OfEquinox(eqx.Module):
    numbers: itertools.count = eqx.field(static=True)

    def __call__(self, x):
        return numbered(self, x.sum())


MODELS = {
    "Keras": (OfKeras, lambda: tf.ones(2)),
    "Flax": (OfFlax, lambda: jnp.ones(2)),
    "Equinox": (lambda: OfEquinox(itertools.count(1)), lambda: jnp.ones(2)),
}


@pytest.mark.parametrize("framework", MODELS)
def test_a_count_of_a_model_is_put_back(framework):
    made, given = MODELS[framework]
    model = made()
    noted()
    assert bp.noise_floor(lambda x: model(x), runs=2)(given())
    assert noted() == [1, 1, 1]
    assert next(model.numbers) == 1
