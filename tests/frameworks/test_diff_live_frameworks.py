"""Segments compared by themselves, across frameworks, in functions and models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch
from flax import nnx

import backprobe as bp

RNG = np.random.default_rng(0)
X, W, V = (RNG.standard_normal(shape).astype(np.float32) for shape in ((5, 4), (4, 3), (3, 3)))
USES = {"torch": torch, "jax": jnp, "tensorflow": tf}


class TorchTanh(torch.autograd.Function):
    """The hyperbolic tangent, without its derivative."""

    @staticmethod
    def forward(ctx, x):
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@jax.custom_vjp
def jax_tanh(x):
    return jnp.tanh(x)


jax_tanh.defvjp(lambda x: (jnp.tanh(x), None), lambda _, gradient: (gradient,))


@tf.custom_gradient
def tensorflow_tanh(x):
    return tf.tanh(x), lambda gradient: gradient


TANH = {"torch": TorchTanh.apply, "jax": jax_tanh, "tensorflow": tensorflow_tanh}


def program(name, *, is_right):
    """A program that is right, or one with a scaled value, a wrong backward, and a value with another sign."""
    tanh = USES[name].tanh if is_right else TANH[name]
    scale, sign = (1.0, 1.0) if is_right else (1.5, -1.0)

    def f(x, w, v):
        h = x @ w * scale
        a = tanh(h)
        s = a @ v * sign
        c = s * s + a
        return c

    return f


def cotangent():
    return np.ones((5, 3), np.float32)


@pytest.mark.parametrize("reference", USES)
@pytest.mark.parametrize("port", USES)
def test_each_mistake_is_found_by_itself(reference, port):
    right, wrong = program(reference, is_right=True), program(port, is_right=False)
    report = bp.diff_live(right, wrong, cotangent=cotangent(), backend=(reference, port))(X, W, V)
    found = [(one.name, one.direction, one.source.text.strip()) for one in report.findings]
    assert found == [
        ("h", "forward", "h = x @ w * scale"),
        ("h", "backward", "a = tanh(h)"),
        ("s", "forward", "s = a @ v * sign"),
    ], str(report)
    assert report.first.name == "h" and report.first_backward.source.text.strip() == "a = tanh(h)"
    rows = {row.a.name: row for row in report.rows}
    assert not rows["a"].value.kind and not rows["c"].value.kind and not rows["c"].gradient.kind
    assert "the second went on with 3 values and " in report.notes[0]


@pytest.mark.parametrize("name", USES)
def test_programs_that_agree_are_compared_as_they_ran(name):
    report = bp.diff_live(
        *(program(one, is_right=True) for one in ("torch", name)), cotangent=cotangent(), backend=("torch", name)
    )(X, W, V)
    assert report.ok and report.complete and report.findings == ()
    assert all("by no more than rounding" in note for note in report.notes)


class TorchModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)

    def forward(self, x):
        h = torch.tanh(self.inner(x))
        return self.outer(h).sum()


class FlaxModel(nnx.Module):
    def __init__(self, of, factor):
        self.inner, self.outer = nnx.Linear(4, 3, rngs=nnx.Rngs(0)), nnx.Linear(3, 2, rngs=nnx.Rngs(0))
        for mine, its in ((self.inner, of.inner), (self.outer, of.outer)):
            mine.kernel[...], mine.bias[...] = its.weight.detach().numpy().T, its.bias.detach().numpy()
        self.factor = factor

    def __call__(self, x):
        h = jnp.tanh(self.inner(x)) * self.factor
        return self.outer(h).sum() * self.factor


def test_models_of_two_frameworks_with_weights_that_lie_otherwise():
    torch.manual_seed(0)
    model = TorchModel()
    rename, layout = {"inner.weight": "inner.kernel", "outer.weight": "outer.kernel"}, {"**.kernel": "T"}
    same, other = FlaxModel(model, 1.0), FlaxModel(model, 2.0)
    select = ["**", ":*"]
    options = {"rename": rename, "layout": layout, "backend": ("torch", "jax")}
    assert not any(one.direction == "forward" for one in bp.diff_live(model, same, select, **options)(X).findings)
    report = bp.diff_live(model, other, select, **options)(X)
    assert [one.name for one in report.findings if one.direction == "forward"] == ["h", "return"], str(report)
