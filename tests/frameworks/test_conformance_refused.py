"""Refusals where a framework has no way to do something: each says what to write instead, and that works."""

import jax
import pytest
import tensorflow as tf
import torch
from backends import FRAMEWORKS, JAX, TENSORFLOW, TORCH

import backprobe as bp

SECTION = "Options that only some have"
STRATEGIES = "`strategy`: `retain_grad`, `hooks` and `separate`"
SECOND = "`create_graph=True`: gradients that can be differentiated again"
PRODUCTS = "`bp.hvp`, and `bp.curvature`, which multiplies by it"
BLOCK = "the block form, `with bp.probe(...) as rec:`"
AROUND_TAPE = "with tf.GradientTape() as tape: ... around bp.probe(...), and tape.gradient(rec['u'].grad, x)"
AROUND_GRAD = "jax.grad(lambda x: bp.probe(f)(x)['u'].grad.sum())(x)"


def supports(claim, answer="yes", **options):
    return pytest.mark.supports(claim, SECTION, answer=answer, **options)


def refused(framework, claim, instead, shown=None):
    """A framework that refuses, and what it says is to be written instead."""
    marks = supports(claim, f"refused: `{shown or instead}`", on=framework)
    return pytest.param(framework, instead, marks=marks, id=framework)


def cube(x):
    u = x * x
    return u * x


@supports(STRATEGIES, on="torch")
@pytest.mark.parametrize("strategy", ["retain_grad", "hooks", "separate"])
def test_strategies(strategy):
    assert bp.probe(cube, strategy=strategy)(TORCH.tensor(3.0))["x"].grad.item() == 27


@pytest.mark.parametrize("strategy", ["retain_grad", "hooks", "separate"])
@pytest.mark.parametrize(
    ("name", "instead"),
    [refused("tensorflow", STRATEGIES, 'strategy="edges"'), refused("jax", STRATEGIES, 'strategy="edges"')],
)
def test_strategies_that_are_refused(name, instead, strategy):
    with pytest.raises(bp.StrategyRefused, match="^the strategy '" + strategy + "' is PyTorch's\n") as caught:
        bp.probe(cube, strategy=strategy)(FRAMEWORKS[name].tensor(3.0))
    assert caught.value.next == instead
    assert bp.probe(cube, strategy="edges")(FRAMEWORKS[name].tensor(3.0))["x"].status == "ok"


@supports(SECOND, on="torch")
def test_second_derivatives():
    x = torch.tensor(3.0, requires_grad=True)
    gradient = bp.probe(cube, create_graph=True)(x)["x"].grad
    assert torch.autograd.grad(gradient, x)[0].item() == 18


@pytest.mark.parametrize(
    ("name", "instead"), [refused("tensorflow", SECOND, AROUND_TAPE), refused("jax", SECOND, AROUND_GRAD)]
)
def test_second_derivatives_that_are_refused(name, instead):
    with pytest.raises(bp.Unsupported) as caught:
        bp.probe(cube, create_graph=True)(FRAMEWORKS[name].tensor(3.0))
    assert caught.value.next == instead


def test_what_to_write_instead_of_create_graph_works():
    x = TENSORFLOW.tensor(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        rec = bp.probe(cube)(x)
    assert tape.gradient(rec["x"].grad, x).numpy() == 18
    assert jax.grad(lambda x: bp.probe(cube)(x)["x"].grad.sum())(JAX.tensor(3.0)).item() == 18


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.supports(PRODUCTS, "Derivatives of each step", on=n)) for n in FRAMEWORKS],
)
def test_hessian_vector_products(name):
    framework = FRAMEWORKS[name]
    assert framework.numpy(bp.hvp(cube, "x", 1.0)(framework.tensor(3.0))) == 18


@pytest.mark.parametrize("name", [pytest.param(n, marks=supports(BLOCK, on=n)) for n in ("torch", "tensorflow")])
def test_the_block_form(name):
    framework = FRAMEWORKS[name]
    x = framework.tensor(3.0)
    if framework is TORCH:
        x.requires_grad_()
    with bp.probe() as rec:
        u = cube(x)
        if framework is TORCH:
            u.backward()
    assert framework.numpy(rec["/cube:u"].grad) == 3


@pytest.mark.parametrize(
    ("name", "instead"),
    [refused("jax", BLOCK, "put the lines into a function f and write rec = bp.probe(f)(x)", "rec = bp.probe(f)(x)")],
)
def test_the_block_form_that_is_refused(name, instead):
    with pytest.raises(bp.Unsupported) as caught, bp.probe(backend=name):
        pass
    assert caught.value.next == instead
