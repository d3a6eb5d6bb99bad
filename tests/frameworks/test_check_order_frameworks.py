"""``bp.check(..., order=2)`` in JAX and TensorFlow."""

import jax
import jax.numpy as jnp
import pytest
import tensorflow as tf

import backprobe as bp

X = [0.7, -0.4, 1.3]


def in_jax(slope):
    @jax.custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, g: (slope(x, g),))

    def program(x):
        u = jnp.sin(x)
        v = cube(u)
        return v.sum()

    return program, jnp.array(X)


def in_tensorflow(slope):
    @tf.custom_gradient
    def cube(x):
        return x**3, lambda g: slope(x, g)

    def program(x):
        u = tf.sin(x)
        v = cube(u)
        return tf.reduce_sum(v)

    return program, tf.constant(X)


FRAMEWORKS = [(in_jax, jax.lax.stop_gradient), (in_tensorflow, tf.stop_gradient)]
each = pytest.mark.parametrize(("make", "stop"), FRAMEWORKS, ids=["jax", "tensorflow"])


@each
def test_a_backward_that_is_cut_is_found(make, stop):
    program, x = make(lambda x, g: 3 * g * stop(x) ** 2)
    assert bp.check(program)(x).ok
    (finding,) = bp.check(program, order=2)(x).findings
    assert "second derivative" in finding.headline and finding.source.text.strip() == "v = cube(u)"
    assert "it is zero" in finding.facts[0] and finding.input == "u"


@each
def test_a_right_one_is_silent(make, stop):
    program, x = make(lambda x, g: 3 * g * x**2)
    assert bp.check(program, order=2)(x).ok
