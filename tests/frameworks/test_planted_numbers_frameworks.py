"""No exception inside explain for random programs with planted numbers, in TensorFlow and JAX."""

import warnings

import jax
import jax.numpy as jnp
import pytest
import tensorflow as tf

from planted_numbers import COUNT, check


def by_a_tape(f, x, m):
    with tf.GradientTape() as tape:
        tape.watch([x, m])
        loss = f(x, m)
    return tape.gradient(loss, [x, m])


def by_jax(f, x, m):
    return jax.grad(f, (0, 1))(x, m)


DIFFERENTIATE = {"tensorflow": by_a_tape, "jax": by_jax}
ARRAYS = {"tensorflow": lambda numbers: tf.constant(numbers, tf.float32), "jax": jnp.array}


@pytest.mark.parametrize("framework", ARRAYS)
def test_nothing_fails_inside_of_explain(framework, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(framework, tmp_path, ARRAYS[framework], DIFFERENTIATE[framework], COUNT or 12)
