"""``bp.sweep`` in each framework: the same names, effects and approximations."""

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf
import torch

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
        "u": -18 * (u**2).sum(), "/helper:inside": -12 * (u**2).sum(), "v": -18 * (u**2).sum()
    }  # fmt: skip
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
    expected = {
        "u[:, 0]": 9.0 * (other[0, 0] ** 2 + u[0, 1] ** 2), "u[:, 1]": 9.0 * (u[0, 0] ** 2 + other[0, 1] ** 2)
    }  # fmt: skip
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
