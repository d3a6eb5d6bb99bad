"""A branch that is not taken is given a harmless number, in TensorFlow and JAX."""

import jax
import jax.numpy as jnp
import pytest
import tensorflow as tf

from masked_branches import HEADS, of, proposed, text_of
from remedied import explained, function

CURED = ("all 2 outputs and gradients are finite then, and equal where they were finite before",)
TENSOR = {"tensorflow": tf.constant, "jax": jnp.array}
CASES = of("tensorflow", "jax")


def asked(f, framework, numbers):
    """The result and the gradient, by the framework alone."""
    x = TENSOR[framework](numbers)
    if framework == "jax":
        return jax.value_and_grad(f)(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = f(x)
    return result, tape.gradient(result, x)


@pytest.mark.parametrize(("framework", "thread", "body", "numbers", "part", "instead"), CASES)
def test_the_part_gets_a_harmless_number(framework, thread, body, numbers, part, instead, tmp_path):
    f = function(text_of(framework, body), tmp_path, HEADS[framework])
    report = explained(f, TENSOR[framework](numbers))
    assert (part, instead) in proposed(report), str(report)
    assert proposed(report)[part, instead].tried == CURED


@pytest.mark.parametrize(("framework", "thread", "body", "numbers", "part", "instead"), CASES)
def test_by_the_framework_alone_it_cures(framework, thread, body, numbers, part, instead, tmp_path):
    texts = [text_of(framework, body), text_of(framework, body.replace(part, instead))]
    (before, bad), (after, grad) = (
        asked(function(text, tmp_path, HEADS[framework]), framework, numbers) for text in texts
    )
    bad, grad = jnp.array(bad), jnp.array(grad)
    assert jnp.isnan(bad).any() and jnp.isfinite(grad).all()
    assert jnp.allclose(float(after), float(before)) and jnp.allclose(grad[jnp.isfinite(bad)], bad[jnp.isfinite(bad)])


def test_numpy_is_called_as_the_program_calls_it(tmp_path):
    text = "def f(x):\n    y = np.where(x < 1.0, x, np.sqrt(x))\n    return np.sum(y)\n"
    report = explained(function(text, tmp_path, "import jax.numpy as np"), jnp.array([0.0, 4.0]))
    assert ("np.sqrt(x)", "np.sqrt(np.where(x < 1.0, 1.0, x))") in proposed(report), str(report)


def test_in_an_example_of_a_vmap(tmp_path):
    text = (
        "def one(x):\n    return jnp.where(x[0] > 0, jnp.sqrt(x[0]), x[1])\n\n\n"
        "def f(x):\n    y = jax.vmap(one)(x)\n    return jnp.sum(y)\n"
    )
    report = explained(function(text, tmp_path, HEADS["jax"]), jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    made = proposed(report)["jnp.sqrt(x[0])", "jnp.sqrt(jnp.where(x[0] > 0, x[0], 1.0))"]
    assert made.tried == CURED
