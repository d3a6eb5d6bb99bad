"""bp.check of derivatives of derivatives, what ok means, and the numbers of an element."""

import pytest
import torch

import backprobe as bp
from check_cases import line
from custom import custom
from goldens import golden
from wrong_derivatives import Halved, numbers

# derivatives of derivatives, what ok means, and the numbers


def cube(second):
    """A cube whose derivative is right, and whose second derivative is this multiple of the right one."""
    return custom("Cube", lambda x: x**3, lambda g, x: 3 * g * (x * x if second == 1 else x.detach() * x))


def penalised(function):
    def f(x):
        y = function.apply(x)  # twice differentiated
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (gradient**2).sum()

    return f


@pytest.mark.parametrize("second", [0.5, 1])
def test_second_derivatives_are_compared_with_differences_of_gradients(second):
    report = bp.check(penalised(cube(second)))(numbers(3))
    assert report.ok is (second == 1)
    assert [(one.input, one.source.line) for one in report.findings] == [
        ("x", line("twice differentiated", __file__))
    ] * (second < 1)
    assert all("second derivative" in one.headline and "0.5 times" in one.facts[0] for one in report.findings)


def test_what_a_penalty_sends_through_a_backward_pass_once_more_is_compared():
    cut = custom("Cut", lambda x: x * 2, lambda g, x: 2 * g.detach())

    def penalty(y, x):
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (gradient**2).sum()

    def f(x):
        y = cut.apply(x * x)  # cut in its backward
        return penalty(y**2, x)

    (finding,) = bp.check(f)(numbers(3)).findings
    assert finding.source.line == line("cut in its backward", __file__)
    assert (finding.kind, finding.name) == ("wrong_derivative", "y")
    golden("check", finding)


def test_third_derivatives_are_said_not_to_be_judged():
    def f(x):
        (first,) = torch.autograd.grad((x**4).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        return second.sum()

    report = bp.check(f)(numbers(3))
    assert report.ok and not report.complete
    (said,) = report.unjudged
    assert "torch.autograd.grad(first.sum(), x, create_graph=True)" in said and "third derivatives" in said


def test_what_no_gradient_goes_through_twice_needs_no_second_derivative():
    def f(x):
        (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return cube(0.5).apply(gradient).sum()

    bp.check(f)(numbers(3)).assert_ok(strict=True)


def test_more_calls_than_are_kept_are_said_not_to_be_judged():
    report = bp.check(penalised_calls)(numbers(2**10, 2**7))
    (said,) = report.unjudged
    assert report.ok and not report.complete and "second derivatives: those of " in said and "too many of them" in said


def penalised_calls(x):
    y = torch.sin(x * 2)
    y = torch.tanh(y + y * y) / (1 + torch.exp(-y * y))
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return (gradient**2).sum()


def test_a_second_derivative_that_nobody_needs_is_not_checked():
    bp.check(lambda x: cube(0.5).apply(x).sum())(numbers(3)).assert_ok(strict=True)


def test_what_differentiates_itself_is_not_said_to_have_nothing_by_hand():
    inner = cube(0.5)
    f = lambda x: torch.autograd.functional.jacobian(inner.apply, x, create_graph=True).sum()  # noqa: E731
    report = bp.check(f)(numbers(3))
    assert report.ok and not report.complete and "nothing in it was written by hand" not in str(report)


def test_the_numbers_of_an_element_can_be_found_again():
    x = numbers(3).double()
    (finding,) = bp.check(lambda x: Halved.apply(x))(x).findings
    assert (finding.kind, finding.name) == ("wrong_derivative", "return")
    golden("check", finding)
    leaf = x.clone().requires_grad_()
    Halved.apply(leaf).sum().backward()
    assert f"[0]: gradient {leaf.grad[0]:.6g}, differences give {2 * x[0]:.6g}" in finding.facts[-1]


def test_an_error_that_the_sum_hides_is_shown_with_random_weights():
    centred = custom("Centred", lambda x: x - x.mean(), lambda g, x: 2 * (g - g.mean()))
    (finding,) = bp.check(lambda x: centred.apply(x))(numbers(3)).findings
    assert (finding.kind, finding.name) == ("wrong_derivative", "return")
    golden("check", finding)
