"""``bp.per_sample`` in each framework, compared with the gradient of each sample alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from flax import linen, nnx

import backprobe as bp
from asked import message

RANDOM = np.random.default_rng(0)
X, Y, W = (RANDOM.normal(size=shape).astype(np.float32) for shape in ((5, 3), (5,), (3,)))
FRAMEWORKS = {
    "torch": (torch.tensor, torch.mean, torch.tanh),
    "tensorflow": (tf.constant, tf.reduce_mean, tf.tanh),
    "jax": (jnp.asarray, jnp.mean, jnp.tanh),
}
each = pytest.mark.parametrize("framework", FRAMEWORKS)


def program(mean, tanh, batch_mean=False):
    def toy(w, x, y):
        u = tanh(x * w)
        if batch_mean:
            u = u - mean(u, 0)
        error = u[:, 0] + u[:, 1] * u[:, 2] - y
        return mean(error * error)

    return toy


@each
def test_a_row_is_the_gradient_of_a_sample(framework):
    array, mean, tanh = FRAMEWORKS[framework]
    toy, given = program(mean, tanh), (array(W), array(X), array(Y))
    samples = bp.per_sample(toy, ["w", "u", "error"], chunk=2)(*given)
    rec = bp.probe(toy)(*given)
    for at in range(5):
        alone = bp.probe(toy)(array(W), array(X[at : at + 1]), array(Y[at : at + 1]))
        np.testing.assert_allclose(np.asarray(samples["w"])[at], np.asarray(alone["w"].grad) / 5, rtol=1e-4, atol=1e-6)
        assert samples.losses[at] == pytest.approx(float(alone.outputs[0].value), rel=1e-5)
    np.testing.assert_allclose(np.asarray(samples["w"]).sum(0), np.asarray(rec["w"].grad), rtol=1e-4, atol=1e-6)
    for name in ("u", "error"):
        np.testing.assert_allclose(np.asarray(samples[name]), np.asarray(rec[name].grad), rtol=1e-4, atol=1e-6)
    assert samples.norms("w")["w"] == pytest.approx(np.linalg.norm(np.asarray(samples["w"]), axis=1), rel=1e-5)
    assert samples.weights.tolist() == [0.2] * 5 and samples.notes == ()


@each
def test_mixed_samples_are_refused_with_the_line(framework):
    array, mean, tanh = FRAMEWORKS[framework]
    toy = program(mean, tanh, batch_mean=True)
    said = message(bp.Unsupported, lambda: bp.per_sample(toy, "w")(array(W), array(X), array(Y)))
    assert "computes something else for a sample in its batch than alone" in said
    assert "'u#1'" in said and "test_per_sample_frameworks.py:" in said and "u = u - mean(u, 0)" in said


@each
def test_nan_is_named(framework):
    array, mean, tanh = FRAMEWORKS[framework]
    x = X.copy()
    x[3, 0] = np.nan
    samples = bp.per_sample(program(mean, tanh), "w")(array(W), array(x), array(Y))
    assert samples.nonfinite == [3] and samples.weights.tolist() == [0.2] * 5
    assert np.nansum(samples.shares) == pytest.approx(1)


# models


class OfEquinox(eqx.Module):
    inner: eqx.nn.MLP

    def __call__(self, x, y):
        h = jax.vmap(self.inner)(x)
        return ((h[:, 0] - y) ** 2).mean()


class OfLinen(linen.Module):
    @linen.compact
    def __call__(self, x, y):
        h = jnp.tanh(linen.Dense(4)(x))
        return ((linen.Dense(1)(h)[:, 0] - y) ** 2).mean()


class OfNnx(nnx.Module):
    def __init__(self, norm=None):
        self.first = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
        self.norm = nnx.BatchNorm(4, rngs=nnx.Rngs(0)) if norm else nnx.LayerNorm(4, rngs=nnx.Rngs(0))

    def __call__(self, x, y):
        h = self.norm(self.first(x))
        return ((h.sum(-1) * h[:, 0] - y) ** 2).mean()


class OfKeras(keras.Model):
    def __init__(self, norm=None):
        super().__init__()
        self.first, self.head = keras.layers.Dense(4), keras.layers.Dense(2)
        self.norm = norm or keras.layers.LayerNormalization()

    def call(self, x, y, training=True):
        h = self.norm(tf.nn.tanh(self.first(x)), training=training)
        logits = self.head(h)
        return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True))


def of_keras(norm=None):
    model = OfKeras(norm)
    given = tf.constant(X), tf.constant([0, 1, 1, 0, 1])
    model(*given)
    return model, (), given


def of_linen():
    model = OfLinen()
    return model, (model.init(jax.random.key(0), X, Y),), (jnp.asarray(X), jnp.asarray(Y))


MODELS = {
    "equinox": lambda: (OfEquinox(eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))), (), (jnp.asarray(X), jnp.asarray(Y))),
    "linen": of_linen,
    "nnx": lambda: (OfNnx(), (), (jnp.asarray(X), jnp.asarray(Y))),
    "keras": of_keras,
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_parameters_and_outputs_of_the_modules_of_a_model(make):
    model, fixed, given = make()
    samples, rec = bp.per_sample(model, "**")(*fixed, *given), bp.probe(model)(*fixed, *given)
    assert samples.notes == () and len(samples.names) >= 4
    gradients = samples.grads()
    alone = [bp.probe(model)(*fixed, *(one[at : at + 1] for one in given)) for at in range(5)]
    for name, own in gradients.items():
        rows = np.stack([np.asarray(one[name].grad) / 5 for one in alone])
        np.testing.assert_allclose(np.asarray(own).reshape(rows.shape), rows, rtol=1e-4, atol=1e-6)
        if own.shape[1:] == rec[name].grad.shape:
            np.testing.assert_allclose(np.asarray(own).sum(0), np.asarray(rec[name].grad), rtol=1e-4, atol=1e-6)


NORMED = {
    "nnx": lambda: (OfNnx(norm=True), (), (jnp.asarray(X), jnp.asarray(Y))),
    "keras": lambda: of_keras(keras.layers.BatchNormalization()),
}


@pytest.mark.parametrize("make", NORMED.values(), ids=NORMED.keys())
def test_a_batch_normalisation_in_training_is_refused_with_the_line(make):
    model, fixed, given = make()
    said = message(bp.Unsupported, lambda: bp.per_sample(model, "**")(*fixed, *given))
    assert "computes something else for a sample in its batch than alone" in said
    assert "test_per_sample_frameworks.py:" in said and "h = self.norm(" in said


def test_a_random_key_of_all_samples_is_refused_and_one_for_each_is_not():
    def drop(w, key, x):
        h = x * jax.random.bernoulli(key, 0.5, x.shape)
        return ((h * w).sum(-1) ** 2).mean()

    key, w, x = jax.random.key(0), jnp.asarray(W), jnp.asarray(X)
    said = message(bp.Unsupported, lambda: bp.per_sample(drop, "w")(w, key, x))
    assert "'h'" in said and "a random key for each sample, as an argument" in said

    def with_keys(w, keys, x):
        return jax.vmap(drop, (None, 0, 0))(w, keys, x[:, None]).mean()

    samples = bp.per_sample(with_keys, "w")(w, jax.random.split(key, 5), x)
    assert samples.notes == ()


def test_dropout_of_keras_is_said_to_draw_other_numbers():
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(16), keras.layers.Dropout(0.5)])
    samples = bp.per_sample(model, "**", of=lambda out: tf.reduce_mean(out**2))(tf.constant(X), training=True)
    assert "the program draws random numbers" in samples.notes[0]
    assert samples.weights.tolist() == [0.2] * 5


def test_a_variable_that_has_changed_since():
    model, _, given = of_keras()
    samples = bp.per_sample(model, "**")(*given)
    model.trainable_variables[0].assign_add(tf.ones_like(model.trainable_variables[0]))
    assert "have changed since" in message(bp.Overwritten, lambda: samples[samples.names[0]])


def test_loops_of_jax():
    def scanned(w, x):
        def step(carry, column):
            carry = jnp.tanh(carry + column * w.sum())
            return carry, carry

        last, _ = jax.lax.scan(step, jnp.zeros(len(x)), x.T)
        return (last**2).sum()

    samples = bp.per_sample(scanned, "w")(jnp.asarray(W), jnp.asarray(X))
    np.testing.assert_allclose(samples["w"].sum(0), jax.grad(scanned)(jnp.asarray(W), jnp.asarray(X)), rtol=1e-5)
