"""``bp.attribute`` in each framework, compared with formulas in NumPy."""

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

W = np.array([2.0, -1.0, 0.5], np.float32)
CLEAN, CORRUPT = np.array([0.5, 1.0, -1.0], np.float32), np.array([0.4, -0.5, 0.25], np.float32)
FRAMEWORKS = {
    "torch": (torch.tensor, torch.sum, torch.tanh),
    "tensorflow": (tf.constant, tf.reduce_sum, tf.tanh),
    "jax": (jnp.asarray, jnp.sum, jnp.tanh),
}
each = pytest.mark.parametrize("framework", FRAMEWORKS)


def program(total, tanh):
    def toy(x, w):
        u = x * w
        v = tanh(u)
        return total(v * v * u)

    return toy


def truth(points):
    """Of x, u, v and the edges, with the gradients at these points of the way."""
    by_x, by_u, by_v = CLEAN - CORRUPT, (CLEAN - CORRUPT) * W, np.tanh(CLEAN * W) - np.tanh(CORRUPT * W)
    found = np.zeros(6)
    for point in points:
        u = (CORRUPT + point * by_x) * W
        v = np.tanh(u)
        direct, of_v = v**2, 2 * v * u
        through = of_v * (1 - v**2)
        own = [by_x * W * (direct + through), by_u * (direct + through), by_v * of_v]
        found += [part.sum() / len(points) for part in (*own, own[0], by_u * through, by_u * direct)]
    x, u, v, x_u, u_v, u_return = map(float, found)
    edges = {("x", "u"): x_u, ("u", "v"): u_v, ("u", "return"): u_return, ("v", "return"): v}
    return {"x": x, "u": u, "v": v}, edges


def value(x):
    return float((np.tanh(x * W) ** 2 * x * W).sum())


@each
@pytest.mark.parametrize("steps", [None, 4])
def test_numbers_are_those_of_the_formula(framework, steps):
    array, total, tanh = FRAMEWORKS[framework]
    given = [(array(x), array(W)) for x in (CLEAN, CORRUPT)]
    result = bp.attribute(program(total, tanh), *given, ["x", "u", "v"], steps=steps)
    nodes, edges = truth([0.0] if steps is None else [(step + 0.5) / steps for step in range(steps)])
    assert dict(result.numbers) == pytest.approx(nodes, rel=1e-5, abs=1e-6)
    assert dict(result.edges) == pytest.approx(edges, rel=1e-5, abs=1e-6)
    assert result.change == pytest.approx(value(CLEAN) - value(CORRUPT), rel=1e-5)
    effects = result.exact(2).effects
    assert set(effects) == {"x", "u"}
    assert [*effects.values()] == pytest.approx([result.change] * 2, rel=1e-5)


@each
def test_chunks_and_axes_give_the_same_numbers(framework):
    array, total, tanh = FRAMEWORKS[framework]
    given = [(array(x), array(W)) for x in (CLEAN, CORRUPT)]
    whole = bp.attribute(program(total, tanh), *given, ["x", "u", "v"])
    parts = bp.attribute(program(total, tanh), *given, ["x", "u", "v"], axis=0, chunk=2)
    assert dict(parts.numbers) == pytest.approx(dict(whole.numbers))
    assert dict(parts.edges) == pytest.approx(dict(whole.edges))
    assert parts.parts["x"].sum() == pytest.approx(whole["x"]) and parts.parts["x"].shape == (3,)


@each
def test_other_shapes_are_refused(framework):
    array, total, tanh = FRAMEWORKS[framework]
    clean, corrupt = (array(CLEAN), array(W)), (array(CORRUPT[:2]), array(W[:2]))
    said = message(bp.BadOption, lambda: bp.attribute(program(total, tanh), clean, corrupt, "u"))
    assert "'u' has another shape in the clean run" in said and "(3,) in the clean run, (2,)" in said


def test_keras_layers():
    model = keras.Sequential([keras.layers.Dense(4, activation="tanh", name="one"), keras.layers.Dense(1, name="two")])
    clean, corrupt = tf.constant([[1.0, 0.5]]), tf.constant([[0.5, 0.0]])
    model(clean)
    result = bp.attribute(model, clean, corrupt, ["one"], of=lambda out: tf.reduce_sum(out))
    ones = [model.get_layer("one")(x) for x in (clean, corrupt)]
    by_hand = float(tf.reduce_sum((ones[0] - ones[1]) @ model.get_layer("two").kernel))
    assert result["one"] == pytest.approx(by_hand, rel=1e-4)
    assert result["one"] == pytest.approx(result.change, rel=1e-4)


def test_equinox_modules():
    model = eqx.nn.MLP(2, "scalar", 4, 2, activation=jnp.tanh, key=jax.random.key(0))
    clean, corrupt = jnp.array([1.0, 0.5]), jnp.array([0.5, 0.0])
    result = bp.attribute(model, clean, corrupt, ["layers.0", "layers.1"])
    tail = lambda h: model.layers[2](jnp.tanh(model.layers[1](jnp.tanh(h))))  # noqa: E731
    hidden = [model.layers[0](x) for x in (clean, corrupt)]
    by_hand = float(((hidden[0] - hidden[1]) * jax.grad(lambda h: tail(h).sum())(hidden[1])).sum())
    assert result["layers.0"] == pytest.approx(by_hand, rel=1e-4)
    assert result.edges["layers.0", "layers.1"] == pytest.approx(by_hand, rel=1e-4)
