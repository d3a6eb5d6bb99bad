"""Options of a probe: outputs, cotangents, patterns, kinds of values, and gradients that are missing."""

import pytest
import torch

import backprobe as bp
from asked import W, X, says


def test_values_that_no_gradient_reaches():
    def f(x, w):
        unused = x * 5
        index = torch.argmax(torch.stack([x, w]))
        cut = (x * w).detach()
        after = cut * 2
        with torch.no_grad():
            quiet = x * 7
            louder = quiet + 1
        constant = torch.ones(2)
        number = x.item()
        return x * w + after + quiet + constant.sum() * number

    rec = bp.probe(f)(X, W)
    expected = {
        "unused": "not_connected",
        "index": "not_float",
        "cut": "detached",
        "after": "detached",
        "quiet": "no_grad",
        "louder": "no_grad",
        "constant": "frozen",
        "number": "not_tensor",
    }
    assert {name: str(rec[name].status) for name in expected} == expected
    assert set(rec.missing()) == set(expected)
    for name in expected:
        assert rec[name].grad_or_none is None
        with pytest.raises(bp.NoGradient, match=f"{name!r} has no gradient: {expected[name]}"):
            _ = rec[name].grad


def test_wrt_chooses_what_is_differentiated():
    rec = bp.probe(lambda x, w: x * w, wrt="w")(X, W)
    says(rec, grads={"w": 3}, statuses={"x": "not_tensor"})
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W)
    rec = bp.probe(lambda x, w: x * w, wrt=["w"])(x, w)
    says(rec, statuses={"x": "frozen"}, grads={"w": 3})


def test_complex_values():
    def f(z):
        u = z * (1 + 2j)
        return (u.abs() ** 2).sum()

    z = torch.tensor([1 + 1j, 2 - 1j], dtype=torch.complex128, requires_grad=True)
    u = z * (1 + 2j)
    u.retain_grad()
    (u.abs() ** 2).sum().backward()
    rec = bp.probe(f)(z)
    says(rec, grads={"u": u.grad, "z": z.grad})
    assert bp.probe(lambda z: (z * z.conj()).real)(1 + 2j)["z"].grad.item() == 2 + 4j


def test_autocast_bfloat16():
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = x @ w
            g = h * 2
        return g.float().sum()

    x, w = torch.randn(3, 4), torch.randn(4, 2)
    rec = bp.probe(f)(x, w)
    assert rec["h"].dtype == "bfloat16"
    assert rec["h"].grad.dtype == torch.bfloat16
    assert rec["h"].grad.tolist() == [[2.0, 2.0]] * 3
    assert rec["x"].grad.dtype == torch.float32


def test_create_graph_gives_gradients_that_can_be_differentiated():
    def f(x):
        u = x**3
        return u * 2

    x = torch.tensor(2.0, requires_grad=True)
    rec = bp.probe(f, create_graph=True)(x)
    assert rec["x"].grad.item() == 24
    (second,) = torch.autograd.grad(rec["x"].grad, x)
    assert second.item() == 24


def test_numpy_arrays_become_leaves():
    import numpy

    rec = bp.probe(lambda x: (x * x).sum())(numpy.array([1.0, 2.0]))
    assert rec["x"].grad.tolist() == [2, 4]
    assert rec["x"].dtype == "float64"


def test_inputs_are_the_recorded_values_that_flow_in():
    def f(x, w, b):
        u = x * w
        v = torch.sin(u + b) * 2
        return v

    rec = bp.probe(f)(3.0, 2.0, 1.0)
    assert [edge.name for edge in rec["u"].inputs] == ["x", "w"]
    assert [edge.name for edge in rec["v"].inputs] == ["b", "u"]
    assert rec["x"].inputs == ()


def test_integers_are_enough_where_parameters_require_a_gradient():
    table = torch.nn.Embedding(4, 2)

    def step(model, ids):
        h = model(ids)
        return (h * 3).sum()

    rec = bp.probe(step)(table, torch.tensor([1, 2]))
    assert rec["h"].grad.tolist() == [[3.0, 3.0]] * 2


def test_integers_too_long_to_write_out():
    def f(x):
        n = 10**5000
        return x * (n // 10**4999)

    rec = bp.probe(f)(X)
    assert rec["x"].grad.item() == 10
    assert rec["n"].reason.startswith("it is the Python number an integer of 16610 bits")
    assert "n = an integer of 16610 bits" in str(rec)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nested_tensors():
    def f(x, w):
        n = torch.nested.as_nested_tensor([x, w], layout=torch.jagged)
        m = n * 2
        return m.values().sum()

    rec = bp.probe(f)(torch.ones(2), torch.ones(3))
    says(rec, statuses={"m": "ok"}, grads={"x": [2, 2]})
    assert "float32 (nested)" in str(rec)


def test_integer_arrays_become_tensors():
    import numpy

    def f(x, index):
        return x[index].sum()

    rec = bp.probe(f)(numpy.array([1.0, 2.0, 3.0]), numpy.array([0, 2]))
    assert rec["x"].grad.tolist() == [1, 0, 1]
    assert rec["index"].dtype == "int64"


def test_the_line_of_an_output_that_was_not_selected():
    def f(x):
        u = x * 2
        return u * 3

    assert bp.probe(f, "u")(X)["return"].source.text == "return u * 3"


def test_a_cut_is_called_one_even_where_what_it_cuts_off_is_not_selected():
    def cut(x):
        u = x.detach() * 2
        return u * x

    assert bp.probe(cut, "u")(torch.tensor(2.0))["u"].status == "detached"
    assert bp.probe(lambda x, k: cut2(x, k), "/cut2:v")(torch.tensor(2.0), 3)["/cut2:v"].status == "frozen"


def cut2(x, k):
    v = torch.ones(2) * k
    return (v * x).sum()
