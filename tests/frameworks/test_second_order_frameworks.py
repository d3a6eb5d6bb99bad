"""``bp.hvp``, ``bp.jacobian`` and ``bp.curvature`` in each framework, against whole Hessians of the frameworks' own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

import backprobe as bp
from asked import message

RANDOM = np.random.default_rng(0)
X, W, V = (RANDOM.normal(size=4).astype(np.float32) for _ in range(3))


def program(total, tanh):
    def toy(x, w):
        u = x * w
        v = tanh(u)
        return total(v * v * u) + u[0] * u[1]

    return toy


def of_torch(at):
    f = program(torch.sum, torch.tanh)
    given = [torch.tensor(X), torch.tensor(W)]
    after = lambda u: torch.sum(torch.tanh(u) ** 2 * u) + u[0] * u[1]  # noqa: E731
    by = torch.autograd.functional.hessian
    return f, given, by(after, given[0] * given[1]) if at is None else by(f, tuple(given))[at][at]


def of_jax(at):
    f = program(jnp.sum, jnp.tanh)
    given = [jnp.asarray(X), jnp.asarray(W)]
    after = lambda u: jnp.sum(jnp.tanh(u) ** 2 * u) + u[0] * u[1]  # noqa: E731
    return f, given, jax.hessian(after)(given[0] * given[1]) if at is None else jax.hessian(f, argnums=at)(*given)


def of_tensorflow(at):
    f = program(tf.reduce_sum, tf.tanh)
    given = [tf.constant(X), tf.constant(W)]
    one = given[0] * given[1] if at is None else given[at]
    with tf.GradientTape() as outer:
        outer.watch(one)
        with tf.GradientTape() as inner:
            inner.watch(one)
            u = one if at is None else one * given[1 - at]
            y = tf.reduce_sum(tf.tanh(u) ** 2 * u) + u[0] * u[1]
        gradient = inner.gradient(y, one)
    return f, given, outer.jacobian(gradient, one)


each = pytest.mark.parametrize("of", [of_torch, of_jax, of_tensorflow], ids=["torch", "jax", "tensorflow"])


@each
@pytest.mark.parametrize(("name", "at"), [("x", 0), ("w", 1), ("u", None)])
def test_a_product_is_that_of_the_whole_hessian(of, name, at):
    f, given, whole = of(at)
    found = bp.hvp(f, name, V.tolist())(*given)
    assert type(found) is not np.ndarray
    np.testing.assert_allclose(np.asarray(found), np.asarray(whole) @ V, rtol=1e-4, atol=1e-5)


@each
@pytest.mark.parametrize(("name", "at"), [("x", 0), ("u", None)])
def test_eigenvalues_are_those_of_the_whole_hessian(of, name, at):
    f, given, whole = of(at)
    found = bp.curvature(f, name, k=2)(*given)
    wanted = np.linalg.eigvalsh(np.asarray(whole, np.float64))
    assert found[name] == pytest.approx(wanted[::-1][:2], rel=1e-3, abs=1e-4)


@each
def test_the_jacobian_of_the_gradient_s_program_has_the_same_signature(of):
    f, given, _ = of(0)
    found = bp.jacobian(f, "u", of=lambda y: y * 2)(*given)
    np.testing.assert_allclose(np.asarray(found), 2 * np.asarray(bp.probe(f)(*given)["u"].grad), rtol=1e-5)


@each
def test_a_vector_of_another_shape_is_refused(of):
    f, given, _ = of(0)
    assert "another shape than the value" in message(bp.BadOption, lambda: bp.hvp(f, "x", [1.0])(*given))
    assert "neither a tensor nor numbers" in message(bp.BadOption, lambda: bp.hvp(f, "x", "a")(*given))


def test_parameters_of_an_equinox_model():
    model = eqx.nn.MLP(3, "scalar", 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    x = jnp.asarray(X[:3])

    def at(weight):
        return eqx.tree_at(lambda one: one.layers[0].weight, model, weight)(x)

    whole = jax.hessian(at)(model.layers[0].weight).reshape(12, 12)
    vector = RANDOM.normal(size=(4, 3)).astype(np.float32)
    found = bp.hvp(model, "layers.0.weight", vector)(x)
    np.testing.assert_allclose(np.asarray(found).ravel(), whole @ vector.ravel(), rtol=1e-4, atol=1e-5)


def test_variables_of_a_keras_model():
    model = keras.Sequential([keras.layers.Dense(3, activation="tanh", name="one"), keras.layers.Dense(1, name="two")])
    x = tf.constant(X[None])
    model(x)
    kernel = model.get_layer("one").kernel.value
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(model(x) ** 2)
        gradient = inner.gradient(y, kernel)
    whole = tf.reshape(outer.jacobian(gradient, kernel), (12, 12)).numpy()
    vector = RANDOM.normal(size=(4, 3)).astype(np.float32)
    found = bp.hvp(model, "one.kernel", vector, of=lambda out: tf.reduce_sum(out**2))(x)
    np.testing.assert_allclose(np.asarray(found).ravel(), whole @ vector.ravel(), rtol=1e-3, atol=1e-4)
