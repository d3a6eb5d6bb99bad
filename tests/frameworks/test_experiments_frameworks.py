"""What experiments show of missing gradients in TensorFlow and JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp

X, W = [1.0, 2.0], [3.0, 4.0]
ARRIVES = "with this line bridged, the gradient of 'x' arrives"


def explained(program, of, asked=None):
    return bp.explain(bp.probe(program)(of(X), of(W)), asked)


def tried(report):
    return [sentence for one in report for sentence in one.tried]


def stopped_in_tensorflow(x, w):
    u = x * w
    d = tf.stop_gradient(u)
    return tf.reduce_sum(d * w)


def by_numpy(x, w):
    u = x * w
    h = tf.constant(np.tanh(u.numpy()))
    return tf.reduce_sum(h * w)


def chosen_in_tensorflow(x, w):
    u = x * w
    k = tf.argmax(u)
    return tf.gather(w, k) * 2.0


def stopped_in_jax(x, w):
    u = x * w
    d = jax.lax.stop_gradient(u)
    return jnp.sum(d * w)


def chosen_in_jax(x, w):
    u = x * w
    k = jnp.argmax(u)
    return w[k] * 2.0


@pytest.mark.parametrize(
    ("program", "of"),
    [
        (stopped_in_tensorflow, tf.constant),
        (by_numpy, tf.constant),
        (chosen_in_tensorflow, tf.constant),
        (stopped_in_jax, jnp.array),
        (chosen_in_jax, jnp.array),
    ],
)
def test_a_gradient_arrives_where_its_line_is_bridged(program, of):
    for asked in (None, "x"):
        (sentence,) = tried(explained(program, of, asked))
        assert "the gradient of 'x' arrives" in sentence


@jax.custom_vjp
def lifted(x):
    return x * 2.0


lifted.defvjp(lambda x: (x * 2.0, None), lambda kept, upstream: (jnp.zeros_like(upstream),))


def test_a_rule_that_gives_zeros_is_a_finding_at_its_call():
    (found,) = explained(lambda x, w: jnp.sum(lifted(x) * w), jnp.array)
    assert "lifted(x)" in found.source.text
    assert found.tried == (
        "the gradient of 'x' is 0 at 4 other points as well, and the output changes",
        ARRIVES,
    )


@tf.custom_gradient
def flattened(x):
    return tf.tanh(x), tf.zeros_like


def within(function):
    return lambda u: tf.py_function(function, [u], tf.float32)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (flattened, "h = step(u)"),
        (within(flattened), "py_function"),
        (within(lambda u: tf.stop_gradient(tf.tanh(u))), "py_function"),
        (within(lambda u: np.tanh(u)), "py_function"),
    ],
    ids=["by hand", "by hand in Python", "stopped in Python", "by NumPy in Python"],
)
def test_a_function_that_gives_zeros_is_a_finding_at_its_call(step, line):
    """What TensorFlow makes of a None in there is a single 0, which it could not add to what comes over the bridge."""

    def program(x, w):
        u = x * w
        h = step(u)
        return tf.reduce_sum(h * h * w)

    (found,) = explained(program, tf.constant)
    assert line in found.source.text
    assert found.tried == (
        "the gradient of 'x' is 0 at 4 other points as well, and the output changes",
        ARRIVES,
    )


def test_a_value_that_goes_into_a_python_function_and_past_it_has_its_gradient():
    """By itself, TensorFlow raises an error here or ends the process: what comes back has two shapes."""
    step = within(lambda u: tf.stop_gradient(tf.tanh(u)))

    def program(x, w):
        u = x * w
        return tf.reduce_sum(step(u) + 3.0 * u)

    rec = bp.probe(program)(tf.constant(X), tf.constant(W))
    np.testing.assert_allclose(rec["u"].grad, [3.0, 3.0])


@pytest.mark.parametrize(
    ("program", "of"),
    [
        (lambda x, w: tf.reduce_sum(tf.nn.relu(-x * w)), tf.constant),
        (lambda x, w: jnp.sum(jax.nn.relu(-x * w)), jnp.array),
    ],
)
def test_a_unit_that_is_off_for_one_input_is_none(program, of):
    assert explained(program, of).ok
