"""``bp.sweep`` in each framework: the same names, effects and approximations."""

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from flax import nnx

import backprobe as bp

X, W, CLEAN = (np.array(numbers, np.float32) for numbers in ([[1, -2]], [[3, 0.5]], [[2, 4]]))
FRAMEWORKS = {
    "torch": (torch.tensor, torch.sum, torch.zeros_like),
    "tensorflow": (tf.constant, tf.reduce_sum, tf.zeros_like),
    "jax": (jnp.asarray, jnp.sum, jnp.zeros_like),
}
each = pytest.mark.parametrize("framework", FRAMEWORKS)


def program(total):
    def helper(a):
        inside = a * 2
        return inside

    def toy(x, w):
        u = x * w
        v = helper(u) + u
        return total(v * v)

    return toy


@each
def test_values_are_replaced_one_at_a_time(framework):
    array, total, zeros = FRAMEWORKS[framework]
    toy, given = program(total), (array(X), array(W))
    found = bp.sweep(toy, ["u", "/helper:inside", "v"], replace=zeros, approximate=True)(*given)
    u = (X * W).astype(float)
    assert found.output == 9 * (u**2).sum()
    assert found.outputs == {"u": 0.0, "/helper:inside": (u**2).sum(), "v": 0.0}
    assert found.approximations == {
        "u": -18 * (u**2).sum(),
        "/helper:inside": -12 * (u**2).sum(),
        "v": -18 * (u**2).sum(),
    }
    assert found.agreement == pytest.approx(
        np.corrcoef([*found.effects.values()], [*found.approximations.values()])[0, 1]
    )
    clean = bp.probe(toy)(array(CLEAN), array(W))
    assert bp.sweep(toy, "u", replace=clean)(*given).outputs == {"u": 9 * ((CLEAN * W) ** 2).sum()}


@each
def test_parts_of_a_value(framework):
    array, total, _ = FRAMEWORKS[framework]
    toy, given = program(total), (array(X), array(W))
    clean = bp.probe(toy)(array(CLEAN), array(W))
    u, other = X * W, CLEAN * W
    expected = {"u[:, 0]": 9.0 * (other[0, 0] ** 2 + u[0, 1] ** 2), "u[:, 1]": 9.0 * (u[0, 0] ** 2 + other[0, 1] ** 2)}
    assert bp.sweep(toy, "u", replace=clean, axis=1)(*given).outputs == expected
    assert bp.sweep(toy, "u", replace=lambda u: array(other), axis=1)(*given).outputs == expected


@each
def test_what_cannot_be_swept(framework):
    array, total, zeros = FRAMEWORKS[framework]
    toy, given = program(total), (array(X), array(W))
    with pytest.raises(bp.BadOutput, match="the output of a sweep is one real number"):
        bp.sweep(toy, "u", of="v", replace=zeros)(*given)
    with pytest.raises(bp.NothingMatched, match="'uu' matches nothing"):
        bp.sweep(toy, "uu", replace=zeros)(*given)
    with pytest.raises(bp.BadOption, match="has another shape in the other recording"):
        bp.sweep(toy, "u", replace=bp.probe(toy)(array(X[:, :1]), array(W[:, :1])))(*given)


def test_layers_of_keras_as_by_hand():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(4, activation="relu", name="a"), keras.layers.Dense(2, name="b")])
    x, other = tf.constant([[1.0, 2.0, 3.0]]), tf.constant([[-1.0, 0.5, 3.0]])
    model(x)
    clean = bp.probe(model, ["a", "b"], of=tf.reduce_sum)(other)
    found = bp.sweep(model, "a", of=tf.reduce_sum, replace=clean, axis=1)(x)
    a, instead = model.layers[0](x).numpy(), model.layers[0](other).numpy()
    for unit in range(4):
        mixed = a.copy()
        mixed[:, unit] = instead[:, unit]
        assert found.outputs[f"a[:, {unit}]"] == float(tf.reduce_sum(model.layers[1](mixed)))


def same(value):
    return value * 1


class Unseeded(keras.layers.Layer):
    def call(self, x):
        return keras.random.dropout(x, 0.5)


class Noisy(nnx.Module):
    def __init__(self):
        self.drop, self.out = nnx.Dropout(0.5, rngs=nnx.Rngs(0)), nnx.Linear(3, 2, rngs=nnx.Rngs(1))

    def __call__(self, x):
        return self.drop(self.out(x)).sum()


def keras_model(*layers):
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(8, name="a"), *layers])


def noisy(x):
    u = tf.nn.dropout(x, 0.5)
    return tf.reduce_sum(u * tf.random.normal(x.shape, seed=3))


GENERATOR = tf.random.Generator.from_seed(3)
NUMPY = np.random.default_rng(0)


def by_generators(x):
    return tf.reduce_sum(x * GENERATOR.normal(x.shape) * NUMPY.random())


@pytest.mark.parametrize(
    ("target", "name", "make"),
    [
        (noisy, "u", tf.ones),
        (by_generators, "x", tf.ones),
        (keras_model(keras.layers.Dropout(0.5)), "a", tf.ones),
        (keras_model(Unseeded()), "a", tf.ones),
        (Noisy(), "out", jnp.ones),
    ],
)
def test_all_runs_draw_the_same_random_numbers(target, name, make):
    options = {} if isinstance(target, Noisy) or not isinstance(target, keras.Model) else {"training": True}
    of = None if not options else tf.reduce_sum
    for _ in range(2):
        swept = bp.sweep(target, name, of=of, replace=same)(make((4, 3)), **options)
        assert swept.effects == {name: 0.0}
        assert swept.output != 0.0


def test_a_model_of_nnx_among_the_arguments():
    swept = bp.sweep(lambda x, model: model(x), "x", replace=same)(jnp.ones((4, 3)), Noisy())
    assert swept.effects == {"x": 0.0}


@pytest.mark.parametrize("seed", [None, 7])
def test_random_numbers_of_tensorflow_go_on_as_if_none_had_been_drawn(seed):
    def drawn(between):
        tf.random.set_seed(11 if seed is None else seed)
        first = tf.random.normal(()).numpy()
        between()
        return [first, *(tf.random.normal(()).numpy() for _ in range(3))]

    assert drawn(lambda: None) == drawn(lambda: bp.sweep(noisy, "u", replace=same)(tf.ones(4)))


def test_inside_scan_of_jax():
    def scanned(x):
        def body(carry, k):
            h = jnp.sin(carry * k)
            return h, h.sum()

        return jax.lax.scan(body, x, jnp.arange(1.0, 4.0))[1].sum()

    found = bp.sweep(scanned, "**:h", replace=jnp.zeros_like)(jnp.asarray([1.0, 2.0]))
    assert found.outputs == {"/body:h": 0.0}
    halved = bp.sweep(scanned, "**:h", replace=jnp.zeros_like, axis=0)(jnp.asarray([0.0, 2.0]))
    assert halved.effects["/body:h[0]"] == 0.0
    assert halved.outputs["/body:h[1]"] == 0.0
