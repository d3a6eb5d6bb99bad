"""``bp.names`` of models of each library: every name that it lists is one that a probe takes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import keras
import pytest
import tensorflow as tf
from flax import linen, nnx

import backprobe as bp


class Nnx(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(4, 4, rngs=rngs)
        self.rest = nnx.List([nnx.Linear(4, 4, rngs=rngs) for _ in range(2)])

    def __call__(self, x, flag=False):
        h = self.first(x)
        for layer in self.rest:
            h = jnp.tanh(layer(h))
        if flag:
            rare = h * 2
            return rare.sum()
        return h.sum()


class Equinox(eqx.Module):
    first: eqx.nn.Linear
    rest: list

    def __call__(self, x):
        h = jax.vmap(self.first)(x)
        for layer in self.rest:
            h = jax.vmap(layer)(h)
        return h.sum()


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        h = linen.Dense(4)(x)
        return linen.Dense(2)(linen.relu(h)).sum()


class Layer(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(4)
        self.rest = [keras.layers.Dense(4) for _ in range(2)]

    def call(self, x, training=False):
        h = self.first(x)
        for layer in self.rest:
            h = layer(h)
        if training:
            dropped = h
            return tf.reduce_sum(dropped)
        return tf.reduce_sum(h)


class Module(tf.Module):
    def __init__(self):
        self.w = tf.Variable(2.0)

    @tf.function
    def __call__(self, x):
        y = self.w * x
        return tf.reduce_sum(y)


def equinox():
    keys = jax.random.split(jax.random.key(0), 3)
    first, *rest = (eqx.nn.Linear(4, 4, key=key) for key in keys)
    return Equinox(first, rest)


def functional():
    given = keras.Input((4,))
    return keras.Model(given, keras.layers.Dense(1)(keras.layers.Dense(3, activation="relu")(given)))


def variables():
    return Linen().init(jax.random.key(0), jnp.ones((2, 4)))


JAX, TF = (lambda: jnp.ones((2, 4))), (lambda: tf.ones((2, 4)))
MODELS = {
    "nnx": (Nnx, lambda: (JAX(),), {"first", "rest.1.kernel", ":h", ":rare", ":return"}),
    "equinox": (equinox, lambda: (JAX(),), {"first.weight", "rest.0", ":h"}),
    "linen": (Linen, lambda: (variables(), JAX()), {":h", ":return"}),
    "bound linen": (lambda: Linen().bind(variables()), lambda: (JAX(),), {":h", "Dense_0.kernel"}),
    "keras layer": (Layer, lambda: (TF(),), {"first", "rest.1", ":h", ":dropped"}),
    "keras model": (functional, lambda: (TF(),), {":return"}),
    "tf.Module": (Module, lambda: (TF(),), {"x", "y", "return"}),
    "tf.function": (lambda: tf.function(lambda x: tf.reduce_sum(x * x)), lambda: (TF(),), {"x", "return"}),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_probe_takes_each_name(kind):
    make, given, wanted = MODELS[kind]
    model = make()
    before = bp.names(model)
    assert wanted <= {*before}
    for name in dict.fromkeys([*before, *before.after(*given())]):
        bp.probe(model, name, of=jnp.sum if kind in ("nnx", "equinox", "linen", "bound linen") else tf.reduce_sum)(
            *given()
        )


def test_what_is_made_in_the_first_run_is_found_after_it():
    found = bp.names(Layer())
    assert found.notes == (
        "modules and parameters may be made as the model first runs: bp.names(model).after(x) has them",
    )
    after = found.after(TF())
    assert {"first.kernel", "rest.1.bias"} <= {*after} - {*found}
    assert after.notes == ()
    assert {"Dense_0", "Dense_1.kernel"} <= {*bp.names(Linen()).after(variables(), JAX())}


def test_the_layers_of_the_framework_are_not_read():
    assert not [name for name in bp.names(functional()).after(TF()) if "/" in name or ":inputs" in name]


def test_a_graph_has_its_names_in_itself():
    signature = tf.function(lambda x: x * 2).get_concrete_function(tf.TensorSpec((2,)))
    with pytest.raises(bp.Unsupported, match="a graph has its names in itself"):
        bp.names(signature)
