"""Programs on which frameworks differ by nature: each says what it gives in which, and why that is right."""

import math

import jax
import pytest
import torch
from backends import FRAMEWORKS, JAX, TENSORFLOW, TORCH

import backprobe as bp
from torch_framework import close

SECTION = "What only some frameworks have"


def supports(claim, answer="yes", **options):
    return pytest.mark.supports(claim, SECTION, answer=answer, **options)


WRITES = "writes in place, `u.mul_(5)`, `u[0] = y`: a version for every name on that memory"


@supports(WRITES, on="torch")
def test_a_write_in_place_makes_new_versions():
    def f(x):
        u = x * 2
        r = u[0]
        u.mul_(5)
        return u.sum() + r

    rec = bp.probe(f)(TORCH.tensor([1.0, 2.0]))
    assert list(rec) == ["x", "u#0", "r#0", "u#1", "r#1", "return"]
    assert rec["u#0"].grad.tolist() == [10, 5]


def written_elementwise(x):
    u = x * 2
    u[0] = 5.0
    return u


@supports(WRITES, "tensors never change", on="tensorflow")
def test_tensors_of_tensorflow_never_change():
    with pytest.raises(TypeError, match="does not support item assignment"):
        bp.probe(written_elementwise, cotangent=[1.0, 1.0])(TENSORFLOW.tensor([1.0, 2.0]))


@supports(WRITES, "tensors never change: `u = u.at[0].set(y)` binds `u` anew", on="jax")
def test_arrays_of_jax_never_change():
    with pytest.raises(TypeError, match="JAX arrays are immutable"):
        bp.probe(written_elementwise, cotangent=[1.0, 1.0])(JAX.tensor([1.0, 2.0]))

    def f(x):
        u = x * 2
        u = u.at[0].set(5.0)
        return u

    rec = bp.probe(f, cotangent=[1.0, 1.0])(JAX.tensor([1.0, 2.0]))
    assert JAX.numpy(rec["u#0"].grad).tolist() == [0, 1]
    assert JAX.numpy(rec["u#1"].grad).tolist() == [1, 1]


@supports("`no_grad`: values computed with gradients switched off", on="torch")
def test_no_grad():
    def f(x):
        with torch.no_grad():
            quiet = x * 7
        return x * quiet

    rec = bp.probe(f)(TORCH.tensor(3.0))
    assert rec["quiet"].status == "no_grad"
    assert rec["x"].grad.item() == 21


@supports("an argument that requires a gradient already: your flags stand", on="torch")
def test_flags_stand():
    x, w = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0)
    rec = bp.probe(lambda x, w: x * w)(x, w)
    assert (rec["x"].grad.item(), str(rec["w"].status)) == (2, "frozen")


FLOATS = "`float(u)` in the program"


def measured(x):
    u = x * 2
    size = float(u)
    return u * size


@supports(FLOATS)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar:UserWarning")
@pytest.mark.parametrize("framework", ["torch", "tensorflow"], indirect=True)
def test_the_number_in_a_value(framework):
    rec = bp.probe(measured)(framework.tensor(3.0))
    assert framework.numpy(rec["x"].grad).item() == 12
    assert rec["size"].value == 6


@supports(FLOATS, "as in `jax.grad`: `u.item()`", on="jax")
def test_the_number_in_a_value_that_jax_differentiates():
    with pytest.raises(TypeError, match="Abstract tracer value"):
        bp.probe(measured)(JAX.tensor(3.0))

    def f(x):
        u = x * 2
        size = u.item()
        return u * size

    assert JAX.numpy(bp.probe(f)(JAX.tensor(3.0))["x"].grad).item() == 12


KEPT = "a value that the program keeps outside, used after the probe is over"


def keeping(kept):
    def f(x):
        u = x * 2
        kept.append(u)
        return u * 3

    return f


@supports(KEPT)
@pytest.mark.parametrize("framework", ["torch", "tensorflow"], indirect=True)
def test_a_value_that_outlives_the_program(framework):
    kept = []
    bp.probe(keeping(kept))(framework.tensor(3.0))
    assert framework.numpy(kept[0] + 1).item() == 7


@supports(KEPT, "as in `jax.grad`: `rec['u'].value`", on="jax")
def test_a_value_of_jax_that_outlives_the_program():
    kept = []
    rec = bp.probe(keeping(kept))(JAX.tensor(3.0))
    with pytest.raises(jax.errors.UnexpectedTracerError):
        kept[0] + 1
    assert JAX.numpy(rec["u"].value + 1).item() == 7


def test_a_function_of_the_framework_itself_is_recorded_rightly_or_refused(framework):
    """Some are Python with a source to read names from, others are not."""
    for function in (framework.ops.exp, framework.ops.relu, framework.ops.sum):
        try:
            rec = bp.probe(function)(framework.tensor([2.0]))
        except bp.NoSource:
            continue
        wanted = math.exp(2.0) if function is framework.ops.exp else 1.0
        assert close(framework.numpy(rec["x" if "x" in rec else next(iter(rec))].grad), [wanted], 1e-5)


def square(p, q):
    return p * q


TWICE = "the same tensor as two arguments"


@supports(TWICE, answer="one entry, with the total gradient")
@pytest.mark.parametrize("framework", ["torch", "tensorflow"], indirect=True)
def test_f_of_x_and_x(framework):
    x = framework.tensor(3.0)
    rec = bp.probe(square)(x, x)
    assert rec["p"] is rec["q"]
    assert list(rec) == ["p", "return"]
    assert framework.numpy(rec["p"].grad).item() == 6


@supports(TWICE, answer="two, as in `jax.grad`", on="jax")
def test_jax_tells_values_apart_and_not_objects():
    """As in ``jax.grad``, and as under ``jax.jit``, where the two are different tracers."""
    x = JAX.tensor(3.0)
    rec = bp.probe(square)(x, x)
    assert list(rec) == ["p", "q", "return"]
    wanted = jax.grad(square, (0, 1))(x, x)
    assert (rec["p"].grad, rec["q"].grad) == wanted
    assert jax.jit(lambda x: tuple(bp.probe(square)(x, x)[name].grad for name in "pq"))(x) == wanted


@supports("an argument that the function also reads as a global is differentiated only as an argument")
def test_an_argument_that_is_also_a_global(framework):
    held = framework.tensor(3.0)

    def f(x):
        u = x * held
        return u

    rec = bp.probe(f)(held)
    assert framework.numpy(rec["x"].grad).item() == 3


def test_the_default_dtypes_of_numbers_are_those_of_the_framework():
    """64-bit numbers are there in JAX only where they were switched on."""
    for framework in FRAMEWORKS.values():
        with framework.wide():
            rec = bp.probe(lambda x: x * 2, backend=framework.name)(3.0)
        assert rec["x"].dtype == ("float64" if framework is JAX else "float32")
