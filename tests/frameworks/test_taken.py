"""A program that takes its next batch from a dataset or a generator that it holds is not run again."""

import jax.numpy as jnp
import pytest
import tensorflow as tf

import backprobe as bp

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
