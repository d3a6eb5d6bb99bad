"""``bp.provoke`` in TensorFlow and JAX: models, transformations, and that nothing of the program is changed."""

import random

import equinox as eqx
import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
from flax import linen, nnx

import backprobe as bp
from outside import note, noted

X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


def only(report):
    (finding,) = report.findings
    return finding


@pytest.fixture
def layers():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Dense(3),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model(X)
    return model


def test_variables_of_layers_and_random_numbers_are_left_as_they_were(layers):
    def loss(x):
        noise = tf.random.normal((2,)) + random.random()
        note(tuple(noise.numpy()))
        return -tf.reduce_mean(tf.math.log(layers(x, training=True) - 0.05)) + tf.reduce_sum(noise)

    tf.random.set_seed(5)
    tf.random.normal((2,))
    expected = tf.random.normal((2,)).numpy()
    tf.random.set_seed(5)
    tf.random.normal((2,))
    before, state = [one.numpy().copy() for one in layers.variables], random.getstate()
    finding = only(bp.provoke(loss, bounds=(-1e3, 1e3))(tf.constant(X)))
    assert "tf.math.log(layers(x, training=True) - 0.05)" in finding.headline
    assert len(set(noted())) == 1
    np.testing.assert_array_equal(tf.random.normal((2,)), expected)
    assert random.getstate() == state
    for value, variable in zip(before, layers.variables, strict=True):
        np.testing.assert_array_equal(value, variable.numpy())


def test_without_a_seed_tensorflow_has_none_afterwards():
    code = (
        "import tensorflow as tf, backprobe as bp\n"
        "from tensorflow.python.eager import context\n"
        "def f(x):\n    return tf.reduce_sum(tf.math.log(x)) + tf.random.normal(())\n"
    )
    space = {}
    import linecache

    linecache.cache["<seedless>"] = (len(code), None, code.splitlines(True), "<seedless>")
    exec(compile(code, "<seedless>", "exec"), space)
    eager = space["context"].context()
    held = {name: vars(eager).pop(name) for name in ("_seed", "_rng") if name in vars(eager)}
    eager._seed = None
    try:
        assert not bp.provoke(space["f"], bounds=(-1.0, 3.0))(tf.constant([1.0, 2.0])).ok
        assert eager._seed is None
        assert "_rng" not in vars(eager)
    finally:
        vars(eager).update(held)


def test_a_keras_model():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(3, kernel_initializer="ones")

        def call(self, x):
            h = self.dense(x)
            return tf.reduce_sum(tf.sqrt(h + 10))

    model = Model()
    model(X)
    finding = only(bp.provoke(model, bounds=(-10.0, 10.0))(tf.constant(X)))
    assert finding.headline.startswith("`tf.sqrt(h + 10)` gives NaN or Inf")
    assert finding.facts[0].startswith("x[")


def test_a_variable_among_the_arguments():
    w = tf.Variable([1.0, 2.0])

    def f(w, x):
        return tf.reduce_sum(tf.math.log(w * x))

    finding = only(bp.provoke(f)(w, 3.0))
    np.testing.assert_array_equal(w, [1.0, 2.0])
    assert isinstance(finding.args[0], tf.Variable)
    assert not np.isfinite(f(*finding.args))


@pytest.mark.parametrize(
    "f",
    [
        jax.jit(lambda x: jnp.sum(jnp.log(x))),
        lambda x: jnp.sum(jax.vmap(lambda v: jnp.log(v))(x)),
        lambda x: jax.lax.scan(lambda total, v: (total + jnp.log(v), total), 0.0, x)[0],
    ],
    ids=["jit", "vmap", "scan"],
)
def test_transformations_of_jax(f):
    finding = only(bp.provoke(f, bounds=(-1.0, 3.0))(jnp.array([1.0, 2.0])))
    assert finding.headline.startswith("`jnp.log(")
    assert not jnp.isfinite(f(*finding.args))


def test_an_operand_inside_of_a_transformation_that_is_not_followed():
    f = jax.grad(lambda x: jnp.sum(jnp.log(x) ** 2))
    report = bp.provoke(f, bounds=(-1.0, 3.0))(jnp.array([1.0, 2.0]))
    assert all("was not searched: " in note and "is inside a transformation" in note for note in report.notes)


class Root(eqx.Module):
    layer: eqx.nn.Linear

    def __call__(self, x):
        h = jax.vmap(self.layer)(x)
        return jnp.sum(jnp.sqrt(h + 2))


def test_a_model_of_equinox_as_target_and_as_argument():
    model = Root(eqx.nn.Linear(3, 2, key=jax.random.key(0)))

    def f(model, x):
        return model(x)

    finding = only(bp.provoke(model, bounds=(-4.0, 4.0))(jnp.asarray(X)))
    assert finding.headline == "`jnp.sqrt(h + 2)` gives NaN or Inf"
    finding = only(bp.provoke(f, bounds={"x": (-4.0, 4.0), "model": None})(model, jnp.asarray(X)))
    np.testing.assert_array_equal(finding.args[0].layer.weight, model.layer.weight)


class Normed(nnx.Module):
    def __init__(self, rngs):
        self.layer, self.norm = nnx.Linear(3, 2, rngs=rngs), nnx.BatchNorm(2, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        h = self.drop(self.norm(self.layer(x)))
        return jnp.sum(jnp.sqrt(h + 6))


def test_a_model_of_nnx_with_a_state():
    model = Normed(nnx.Rngs(0))
    kinds = (nnx.Param, nnx.BatchStat, nnx.RngCount)
    before = jax.tree.map(np.asarray, nnx.state(model, kinds))
    report = bp.provoke(model, bounds=(-4.0, 4.0))(jnp.asarray(X))
    assert report.notes[0].startswith("`jnp.sqrt(h + 6)` ")
    after = jax.tree.map(np.asarray, nnx.state(model, kinds))
    assert jax.tree.all(jax.tree.map(np.array_equal, before, after))


def test_a_model_of_linen():
    class Shifted(linen.Module):
        @linen.compact
        def __call__(self, x):
            h = linen.Dense(2)(x)
            return jnp.sum(jnp.log(h + 10))

    model = Shifted()
    parameters = model.init(jax.random.key(0), X)
    finding = only(bp.provoke(model, bounds={"args": (-20.0, 20.0), "variables": None})(parameters, X))
    assert finding.headline == "`jnp.log(h + 10)` gives NaN or Inf"
    assert finding.facts[0].startswith("args.0[")


def test_a_graph_is_refused():
    with tf.Graph().as_default():
        tensor = tf.math.log(tf.compat.v1.placeholder(tf.float32, ()))
    with pytest.raises(bp.Unsupported, match="a graph cannot be provoked"):
        bp.provoke(tensor)(1.0)
