"""No exception inside explain for random programs with planted numbers, in TensorFlow and JAX."""

import warnings

import jax.numpy as jnp
import pytest
import tensorflow as tf

from planted_numbers import COUNT, check

ARRAYS = {"tensorflow": lambda numbers: tf.constant(numbers, tf.float32), "jax": jnp.array}


@pytest.mark.parametrize("framework", ARRAYS)
def test_nothing_fails_inside_of_explain(framework, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(framework, tmp_path, ARRAYS[framework], COUNT or 12)
