"""``bp.curvature`` and ``bp.hvp``, against whole Hessians by ``torch.func``."""

import json
import sys

import numpy
import pytest
import torch
from torch import nn

import backprobe as bp
import second_order_cases
from asked import message
from curvature_cases import FUNCTIONS, hessian, hessian_of_parameters, ones, quadratic, regression, saddle, symmetric

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
each = pytest.mark.parametrize(("function", "args", "name"), FUNCTIONS, ids=lambda one: getattr(one, "__name__", ""))
ORDERS = {"largest": lambda one: -one, "smallest": lambda one: one, "magnitude": lambda one: -abs(one)}
NAMES = ["inner.weight", "inner.bias", "outer.weight", "outer.bias"]


def ends(matrix, which, k):
    """The eigenvalues of a whole matrix at one end."""
    every = numpy.linalg.eigvalsh(matrix.numpy())
    return every[numpy.argsort(ORDERS[which](every), kind="stable")][:k]


@each
def test_a_product_is_that_of_the_whole_hessian(function, args, name):
    matrix = hessian(function, args, name)
    for vector in torch.eye(len(matrix), dtype=torch.float64):
        found = bp.hvp(function, name, vector.reshape(args[0 if name == "x" else 1].shape))(*args)
        torch.testing.assert_close(found.flatten(), matrix @ vector)


@pytest.mark.parametrize("which", ORDERS)
@each
def test_eigenvalues_are_those_of_the_whole_hessian(function, args, name, which):
    found = bp.curvature(function, name, k=2, which=which)(*args)
    assert found[name] == pytest.approx(ends(hessian(function, args, name), which, 2), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("which", ORDERS)
def test_lanczos_finds_those_of_a_larger_matrix(which):
    matrix, x = symmetric(60), ones(60)
    result = bp.curvature(quadratic, "x", k=3, which=which)(x, matrix)
    assert result["x"] == pytest.approx(ends(matrix, which, 3), rel=1e-6)
    assert 10 < result.products["x"] < 600 and result.sizes == {"x": 60}


def test_parameters_of_a_model_alone_and_together():
    model, args = regression()
    apart = bp.curvature(model, NAMES, k=2)(*args)
    for name in NAMES:
        matrix = hessian_of_parameters(model, args, [name])
        assert apart[name] == pytest.approx(ends(matrix, "largest", 2), rel=1e-6, abs=1e-9)
    together = bp.curvature(model, "**.*", k=3, joint=True)(*args)
    matrix = hessian_of_parameters(model, args, NAMES)
    assert together["joint"] == pytest.approx(ends(matrix, "largest", 3), rel=1e-6)
    assert together.sizes == {"joint": len(matrix)} and together.notes == ()


@pytest.mark.parametrize("which", ORDERS)
@pytest.mark.parametrize("size", [5, 60])
def test_eigenvectors_are_those_of_the_whole_hessian(size, which):
    matrix, x = symmetric(size), ones(size)
    result = bp.curvature(quadratic, "x", k=3, which=which)(x, matrix)
    vectors = result.eigenvectors["x"]
    assert vectors.shape == (3, size)
    assert matrix.numpy() @ vectors.T == pytest.approx(vectors.T * result["x"], abs=1e-5)
    assert vectors @ vectors.T == pytest.approx(numpy.eye(3), abs=1e-6)
    assert (numpy.take_along_axis(vectors, abs(vectors).argmax(axis=1)[:, None], axis=1) > 0).all()


def test_eigenvectors_of_parameters_have_their_shapes():
    model, args = regression()
    apart = bp.curvature(model, NAMES, k=2)(*args)
    together = bp.curvature(model, "**.*", k=2, joint=True)(*args)
    for name, own in model.named_parameters():
        assert apart.eigenvectors[name].shape == together.eigenvectors[name].shape == (2, *own.shape)
        matrix = hessian_of_parameters(model, args, [name]).numpy()
        flat = apart.eigenvectors[name].reshape(2, -1)
        assert matrix @ flat.T == pytest.approx(flat.T * apart[name], abs=1e-5)
    whole = numpy.concatenate([together.eigenvectors[name].reshape(2, -1) for name in NAMES], axis=1)
    matrix = hessian_of_parameters(model, args, NAMES).numpy()
    assert matrix @ whole.T == pytest.approx(whole.T * together["joint"], abs=1e-5)
    assert numpy.linalg.norm(whole, axis=1) == pytest.approx([1.0, 1.0])


def test_an_inner_value_is_differentiated_alone():
    def program(x):
        u = x * 2
        return (u**3).sum() + x.sum() ** 2

    x = ones(3)
    found = bp.curvature(program, "u", k=3)(x)["u"]
    assert sorted(found) == pytest.approx(sorted((12 * x).tolist()))


def test_a_linear_function_has_no_curvature():
    result = bp.curvature(lambda x: (3 * x).sum(), "x", k=2)(ones(40))
    assert result["x"].tolist() == [0.0, 0.0] and result.eigenvectors["x"].shape == (2, 40)


def test_each_binding_of_a_name_has_its_own():
    def program(x):
        for _ in range(2):
            x = torch.sin(x)
        return x.sum()

    found = bp.curvature(program, "x", k=3)(X)
    assert list(found) == ["x#0", "x#1", "x#2"] and not found["x#2"].any()
    assert sorted(found["x#1"]) == pytest.approx(sorted((-torch.sin(torch.sin(X))).tolist()))


def test_single_precision_is_enough():
    matrix = symmetric(40).float()
    found = bp.curvature(quadratic, "x", k=2)(ones(40).float(), matrix)["x"]
    assert found == pytest.approx(ends(matrix.double(), "largest", 2), rel=1e-3)


def test_a_wrong_second_derivative_makes_it_asymmetric_and_is_said():
    def program(x):
        a, b = x * 2, torch.cos(x)
        return (second_order_cases.HalfDetachedProduct.apply(a, b) * x).sum() + x.prod()

    def mixed(x):
        return (second_order_cases.HalfDetachedProduct.apply(x[:2] * x[1], x[1:] * 3)).sum()

    result = bp.curvature(mixed, "x")(ones(3))
    assert result.asymmetry["x"] > 1e-3
    assert "bp.check(mixed, order=2)(...) names the line" in str(result)
    assert bp.curvature(saddle, "x")(ones(3)).notes == ()
    assert not bp.check(mixed, order=2)(ones(3)).ok


def test_nothing_is_left_behind_and_all_products_see_one_dropout():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 30), nn.Dropout(0.5), nn.Tanh(), nn.Linear(30, 1)).double()
    x, before = ones(8, 5), torch.get_rng_state()
    result = bp.curvature(model, "0.weight", of=lambda out: out.square().mean())(x)
    assert torch.equal(before, torch.get_rng_state()) and result.notes == ()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_it_is_data_and_a_table():
    result = bp.curvature(saddle, "x", k=2)(ones(3))
    known = json.loads(json.dumps(result.to_dict()))
    assert known["eigenvalues"]["x"] == result["x"].tolist() and known["which"] == "largest"
    assert repr(result) == "<backprobe.Curvature of 1 Hessian: return of saddle>"
    assert "for each value alone" in str(result) and "x" in result._repr_html_()


def cut(x):
    u = x.detach() * 2
    return (u * x).sum()


X = ones(3)
REFUSED = [
    (lambda: bp.curvature(saddle, None), bp.BadOption, "curvature is by named values"),
    (lambda: bp.curvature(saddle, "x", k=0), bp.BadOption, "k is a whole number from 1 on"),
    (lambda: bp.curvature(saddle, "x", which="top"), bp.BadOption, 'next:  which="largest"'),
    (lambda: bp.curvature(saddle, "x", joint=1), bp.BadOption, "joint is True or False"),
    (lambda: bp.curvature(3, "x"), bp.BadOption, "neither a function nor a model"),
    (lambda: bp.curvature(saddle, "y")(X), bp.NothingMatched, "matches nothing in saddle"),
    (lambda: bp.curvature(saddle, "return")(X), bp.NothingMatched, "matches nothing in saddle that has a gradient"),
    (lambda: bp.hvp(saddle, "*", X)(X), bp.UnknownName, "no value is named '*'"),
    (lambda: bp.curvature(cut, "u")(X), bp.NoGradient, "has no gradient history"),
    (lambda: bp.curvature(lambda x: x * 2, "x")(X), bp.BadOutput, "the output is not a scalar"),
    (lambda: bp.curvature(lambda z: (z * z.conj()).real.sum(), "z")(X.to(torch.complex64)), bp.Unsupported, "complex"),
    (lambda: bp.curvature(lambda x: (x.abs() ** 1.5).sum(), "x")(X * 0), bp.Unsupported, "is not finite"),
    (lambda: bp.curvature(saddle, "x")(X)["y"], bp.UnknownName, "next:  result['x']"),
]


@pytest.mark.parametrize(("ask", "kind", "text"), REFUSED)
def test_what_cannot_be_had_says_why(ask, kind, text):
    assert text in message(kind, ask)


def test_without_scipy_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse.linalg", None)
    said = message(bp.NotInstalled, lambda: bp.curvature(saddle, "x")(X))
    assert "bp.curvature(...) needs scipy.sparse.linalg" in said and "pip install scipy" in said
