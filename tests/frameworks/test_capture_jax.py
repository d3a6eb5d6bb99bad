"""``bp.guard(capture=...)`` and ``bp.replay`` in JAX: gradients of functions, and calls of models."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy
import pytest
from flax import nnx

import backprobe as bp
from commands import in_folder, invoked

STEPS = 4


def root(h, x):
    """Its gradient is not finite where all of the batch is zero."""
    return jnp.sqrt((jnp.abs(h) + 1e-6) * (x != 0).any())


def floats(step, *shape):
    drawn = numpy.random.default_rng(step).standard_normal(shape).astype("float32")
    return jnp.asarray(drawn * (step < STEPS - 1))


def mlp(params, batch, key):
    x, target = batch["x"], batch["target"]
    h = jnp.tanh(x @ params["w"][0] + params["b"])
    h = h * jax.random.bernoulli(key, 0.8, h.shape)
    return ((root(h, x) @ params["w"][1] - target) ** 2).mean()


def with_aux(params, tokens, scale=1.0):
    h = params["table"][tokens] * scale
    return root(h, tokens).sum(), {"h": h}


def share(params, x):
    h = x * params["w"]
    return jnp.log((h / h.sum()).mean() + params["b"])


class Net(eqx.Module):
    inside: eqx.nn.MLP
    scale: jax.Array

    def __call__(self, x):
        return root(self.inside(x) * self.scale, x)


def of_a_model(net, x):
    return (jax.vmap(net)(x) ** 2).mean()


def weights():
    return {"w": [floats(0, 3, 4), floats(1, 4, 1)], "b": floats(2, 4)}


def net():
    return Net(eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(3)), jnp.asarray(2.0))


CASES = {
    "dropout, nested batch": (
        mlp,
        weights,
        lambda step: ({"x": floats(step, 5, 3), "target": floats(7, 5, 1)}, jax.random.key(step)),
        {},
        False,
    ),
    "aux, integers": (
        with_aux,
        lambda: {"table": floats(0, 9, 4)},
        lambda step: (jnp.arange(6) % 9 * (step < STEPS - 1),),
        {"scale": 0.5},
        True,
    ),
    "the value": (share, lambda: {"w": floats(0, 3) ** 2, "b": 1.0}, lambda step: (floats(step, 3) ** 2,), {}, False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_taken_again_in_every_bit(name, tmp_path):
    function, make, given, words, has_aux = CASES[name]
    params, path = make(), tmp_path / "bad-step"
    with pytest.raises(bp.NotFinite) as caught, bp.guard(capture=path):
        for step in range(STEPS):
            gradient = jax.grad(function, has_aux=has_aux)(params, *given(step), **words)
            params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient[0] if has_aux else gradient)
    assert step == STEPS - 1
    report = bp.replay(path, function)
    assert report.bitwise, report
    assert [one.headline for one in report.findings] == [one.headline for one in caught.value.report.findings]
    assert report.recording is not None


def test_a_gradient_of_a_model_of_equinox(tmp_path):
    model, path = net(), tmp_path / "bad-step"
    with pytest.raises(bp.NotFinite) as caught, bp.guard(model, capture=path):
        for step in range(STEPS):
            gradient = eqx.filter_grad(of_a_model)(model, floats(step, 5, 3))
            model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, gradient))
    assert step == STEPS - 1
    with pytest.raises(bp.BadOption, match="a part of it was left out"):
        bp.replay(path, of_a_model)  # a lambda is in the model
    report = bp.replay(path, of_a_model, models=[net()])
    assert report.bitwise, report
    assert [one.headline for one in report.findings] == [one.headline for one in caught.value.report.findings]


class Share(eqx.Module):
    weight: jax.Array

    def __call__(self, x):
        h = self.weight * x
        return h / h.sum()


def test_a_call_of_a_model_of_equinox(tmp_path):
    model, path = Share(floats(0, 3)), tmp_path / "bad-step"
    with pytest.raises(bp.NotFinite), bp.guard(model, capture=path):
        for step in range(STEPS):
            model(floats(step, 3))
    report = bp.replay(path, Share(jnp.ones(3)))
    assert report.bitwise, report
    assert report.findings[0].source.text.strip() == "return h / h.sum()"


def test_a_mapped_call_runs_again_for_one_element(tmp_path):
    model, path = Share(floats(0, 3)), tmp_path / "bad-step"
    with pytest.raises(bp.NotFinite), bp.guard(model, capture=path):
        jax.vmap(model)(floats(1, 4, 3).at[2].set(0.0))
    report = bp.replay(path, Share(jnp.ones(3)))
    assert report.findings[0].source.text.strip() == "return h / h.sum()"
    assert any("jax.vmap" in note for note in report.notes)


class Dense(nnx.Module):
    def __init__(self, rngs):
        self.inside, self.drop = nnx.Linear(3, 4, rngs=rngs), nnx.Dropout(0.3, rngs=rngs)

    def __call__(self, x):
        h = self.drop(self.inside(x))
        return h / x.sum()


def test_a_call_of_a_model_of_flax(tmp_path):
    model, path = Dense(nnx.Rngs(0)), tmp_path / "bad-step"
    with pytest.raises(bp.NotFinite), bp.guard(model, capture=path):
        for step in range(STEPS):
            model(floats(step, 2, 3))
    report = bp.replay(path, Dense(nnx.Rngs(1)))
    assert report.bitwise, report
    assert report.findings[0].source.text.strip() == "return h / x.sum()"


def of_flax(model, x):
    return (model.inside(x) * jnp.sqrt(jnp.abs(x).sum())).sum() + root(model.inside(x), x).sum()


def test_a_gradient_of_a_model_of_flax(tmp_path):
    model, path = Dense(nnx.Rngs(0)), tmp_path / "bad-step"
    with pytest.raises(bp.NotFinite), bp.guard(capture=path):
        for step in range(STEPS):
            nnx.grad(of_flax)(model, floats(step, 2, 3))
    with pytest.raises(bp.BadOption) as caught:
        bp.replay(path, of_flax)
    assert "a model of NNX" in caught.value.found
    report = bp.replay(path, of_flax, models=[Dense(nnx.Rngs(1))])
    assert report.bitwise, report


LOSSES = """
import jax, jax.numpy as jnp, equinox as eqx

class Net(eqx.Module):
    inside: eqx.nn.MLP

    def __call__(self, x):
        return jnp.sqrt(jnp.abs(self.inside(x)) * x.sum())

def make_model():
    return Net(eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0)))

def loss(net, x):
    return net(x).sum()
"""


def test_the_command(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"losses.py": LOSSES}):
        monkeypatch.syspath_prepend(tmp_path)
        losses = __import__("losses")
        with pytest.raises(bp.NotFinite) as caught, bp.guard(capture="bad-step"):
            eqx.filter_grad(losses.loss)(losses.make_model(), jnp.zeros(3))
        assert caught.value.__notes__[0].endswith("model.py:loss --model model.py:make_model")
        code, out, err = invoked("replay", "bad-step", "losses.py:loss", "--model", "losses.py:make_model")
        assert (code, err) == (1, ""), out
        assert "the same in every bit as when it failed" in out


def test_a_function_with_other_arguments_does_not_fit(tmp_path):
    path = tmp_path / "bad-step"
    with pytest.raises(bp.NotFinite), bp.guard(capture=path):
        jax.grad(share)({"w": jnp.zeros(3), "b": 1.0}, jnp.ones(3))
    with pytest.raises(bp.BadOption) as caught:
        bp.replay(path, 3)
    assert caught.value.headline.endswith("is of a function")
