"""Jacobians and Hessian-vector products by name, judged by PyTorch's own functional ones."""

import pytest
import torch
from torch.autograd.functional import hessian
from torch.autograd.functional import jacobian as reference

import backprobe as bp
from asked import message

X = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
W = torch.tensor([[1.0, 2.0, 0.5], [-1.0, 0.25, 3.0]], dtype=torch.float64)


def layer(x, w):
    u = w @ x
    v = torch.tanh(u)
    return v * x[:2]


def energy(x, w):
    u = w @ x
    v = u.sin() * x[:2]
    return (v * u**2).sum()


def test_a_jacobian_of_an_argument():
    found = bp.jacobian(layer, "w")(X, W)
    assert found.shape == (2, 2, 3)
    torch.testing.assert_close(found, reference(lambda w: layer(X, w), W))


def test_a_jacobian_of_a_value_in_the_middle_holds_the_other_values_still():
    found = bp.jacobian(layer, "u")(X, W)
    torch.testing.assert_close(found, reference(lambda u: torch.tanh(u) * X[:2], W @ X))


def test_the_jacobian_of_a_scalar_is_its_gradient():
    torch.testing.assert_close(bp.jacobian(energy, "x")(X, W), bp.probe(energy)(X, W)["x"].grad)


def test_a_jacobian_inside_a_model():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    found = bp.jacobian(model, "1")(X)
    torch.testing.assert_close(found, model[2].weight.detach())


def test_a_jacobian_of_one_version_of_a_value():
    def program(x):
        u = x * 2
        u += 1
        return u**2

    torch.testing.assert_close(bp.jacobian(program, "u#1")(X), torch.diag(2 * (2 * X + 1)))


def test_a_hessian_vector_product_for_an_argument():
    vector = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(bp.hvp(energy, "x", vector)(X, W), hessian(lambda x: energy(x, W), X) @ vector)


def test_a_hessian_vector_product_for_a_value_in_the_middle():
    vector = torch.tensor([1.0, -2.0], dtype=torch.float64)
    expected = hessian(lambda u: (u.sin() * X[:2] * u**2).sum(), W @ X) @ vector
    torch.testing.assert_close(bp.hvp(energy, "u", vector)(X, W), expected)


def test_the_hessian_of_a_linear_function_is_zero():
    assert bp.hvp(lambda x: (3 * x).sum(), "x", [1.0, 2.0, 3.0])(X).tolist() == [0, 0, 0]


def test_a_vector_of_numbers_takes_the_dtype_of_the_value():
    assert bp.hvp(energy, "u", [1, 0])(X, W).dtype == torch.float64


def test_no_gradient_is_left_on_the_arguments():
    x = X.clone().requires_grad_()
    bp.hvp(energy, "x", X)(x, W)
    bp.jacobian(layer, "x")(x, W)
    assert x.grad is None


REFUSED = [
    (lambda: bp.jacobian(energy, "uu")(X, W), bp.NothingMatched, "next:  bp.jacobian(energy, 'u')"),
    (lambda: bp.jacobian(energy, "return")(X, W), bp.BadOption, "'return' is the output itself"),
    (
        lambda: bp.jacobian(lambda x: x @ x, "x")(torch.ones(40, 40)),
        bp.BadOption,
        "a Jacobian block of 2,560,000 elements was not computed: the limit is 1,000,000",
    ),
    (
        lambda: bp.jacobian(lambda z: z * z, "z")(torch.ones(2, dtype=torch.complex64)),
        bp.Unsupported,
        "a complex output",
    ),
    (lambda: bp.hvp(energy, "u", [1.0])(X, W), bp.BadOption, "a vector of shape (2,)"),
    (lambda: bp.hvp(layer, "u", [1.0, 1.0])(X, W), bp.BadOutput, "the output is not a scalar"),
]


@pytest.mark.parametrize(("ask", "error", "text"), REFUSED)
def test_what_cannot_be_had_says_why(ask, error, text):
    assert text in message(error, lambda: ask())


def test_a_value_without_gradient_says_why():
    def cut(x):
        u = x.detach() * 2
        return u * x

    with pytest.raises(bp.NoGradient, match="has no gradient history"):
        bp.jacobian(cut, "u")(X)


def test_a_version_that_was_overwritten_cannot_be_differentiated_again():
    def program(x):
        u = x * 2
        y = u.sum()
        u.mul_(3)
        return y * y + u.sum()

    with pytest.raises(bp.Unsupported, match="was overwritten in place"):
        bp.hvp(program, "u#0", [1.0, 1.0, 1.0])(X)
