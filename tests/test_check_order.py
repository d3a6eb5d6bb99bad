"""``bp.check(..., order=2)``: Hessian-vector products of each call against differences of gradients."""

import inspect
import re

import pytest
import torch

import backprobe as bp
import second_order_cases as cases
from asked import message
from goldens import golden

LINES = inspect.getsource(cases).splitlines()
LOOKS = {"zero": "it is zero", "refused": "it is zero", "wrong": "0.5 times"}


def marked(program):
    """The marked line that a program comes to: its own, that of its module, or none."""
    own = inspect.getsource(program) + (inspect.getsource(cases.Cubed) if program is cases.in_a_module else "")
    return [line.strip() for line in own.splitlines() if line.endswith("# second")]


@pytest.mark.parametrize("program", cases.KINDS, ids=lambda one: one.__name__)
def test_a_wrong_second_derivative_is_named_by_its_line(program):
    kind = cases.KINDS[program]
    bp.check(program)(cases.X).assert_ok(strict=True)
    report = bp.check(program, order=2)(cases.X)
    assert report.complete
    assert {one.source.text.strip() for one in report.findings} == {*marked(program)}
    assert bool(report.findings) is (kind is not None)
    for finding in report.findings:
        assert "second derivative" in finding.headline and LOOKS[kind] in finding.facts[0]


def test_the_report_of_a_backward_that_is_not_differentiable():
    golden("check", bp.check(cases.detached, order=2)(cases.X))


def test_a_loop_is_judged_once_and_a_wrong_first_derivative_is_said_alone():
    def repeated(x):
        for _ in range(3):
            x = cases.DetachedCube.apply(x)
        return x.sum()

    assert len(bp.check(repeated, order=2)(cases.X).findings) == 1

    class Wrong(cases.DetachedCube):
        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 2 * x.detach() ** 2

    (finding,) = bp.check(lambda x: Wrong.apply(x), order=2)(cases.X).findings
    assert "second" not in finding.headline


def test_what_the_hessian_vector_product_gives_is_what_is_found():
    x = cases.X.clone().requires_grad_()
    product = bp.hvp(cases.detached, "x", torch.ones(3))(x)
    u = torch.sin(cases.X)
    torch.testing.assert_close(product, -3 * u**2 * torch.sin(cases.X))  # without 6 · u · cos²
    (finding,) = bp.check(cases.detached, order=2)(cases.X).findings
    found = [float(one) for one in re.findall(r"differences give ([-.\de]+)", finding.facts[-1])]
    assert len(found) == 3 and all(abs(one) > 0.1 for one in found)


@pytest.mark.parametrize("order", [0, 3, True, "2", None, 2.0])
def test_another_order_is_refused(order):
    assert "order is 1 or 2" in message(bp.BadOption, lambda: bp.check(cases.right, order=order))
