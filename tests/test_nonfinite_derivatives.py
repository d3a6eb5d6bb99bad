"""The local derivative of a backward birth is asked of the framework, at the first bad element."""

import pytest
import torch
from torch import tensor

import backprobe as bp
from birth_forms import BIRTHS, in_both, in_function


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.pow(0.5)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return 0.5 * g / y


def left_out(x):
    root = x.sqrt()
    return (root * 0).sum()


def inside_a_line(x):
    return (2 * torch.sqrt(x) * 0).sum()


def lengths(x):
    n = x.reshape(2, -1).pow(0.5).sum(1)
    return n.sum()


def scaled(x):
    y = x * 1e30
    return (y * 1e20).sum()


def own_rule(x):
    root = Root.apply(x)
    return root.square().sum()


ASKED = [
    (left_out, [4.0, 0.0], "0 · Inf: the derivative of Sqrt at [1] is Inf, times an incoming 0.0"),
    (inside_a_line, [0.5, 0.0], "0 · Inf: the derivative of Sqrt at [1] is Inf, times an incoming 0.0"),
    (lengths, [4.0, 1.0, 0.0, 1.0], "the derivative of Pow at [1, 0] is Inf, times an incoming 1.0"),
    (scaled, [1e-30, 1e-30], "the derivative of Mul at [0] is 1e+30, times an incoming 1e+20"),
]


@in_both
@pytest.mark.parametrize(("program", "numbers", "said"), ASKED)
def test_the_framework_says_what_the_element_is_the_product_of(program, numbers, said, explained):
    facts = [fact for one in explained(program, tensor(numbers)).of_kind(*BIRTHS) for fact in one.facts]
    assert said in facts


def test_of_a_rule_of_the_program_one_element_is_differentiated_alone():
    (found,) = in_function(own_rule, tensor([4.0, 0.0])).of_kind("born_backward")
    said = "the derivative of root at [1] with respect to x at [1] is Inf"
    assert f"0 · Inf: {said}, times an incoming 0.0" in found.facts
    assert found.headline.endswith(f"0 · Inf: a zero gradient, and {said}")


def test_no_run_is_made_where_none_may_be():
    calls = []

    def program(x):
        calls.append(1)
        return own_rule(x)

    rec = bp.probe(program, nonfinite=True)(tensor([4.0, 0.0]))
    report = bp.explain(rec, experiments=False)
    assert len(calls) == 1
    assert not any("with respect to" in fact for one in report for fact in one.facts)


def test_a_node_is_not_asked_in_a_healthy_program(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "backprobe.backends.torch.nonfinite_operations.local_derivative", lambda *given: asked.append(given)
    )
    assert in_function(left_out, tensor([4.0, 1.0])).ok and not asked


def test_a_node_of_the_programs_own_code_is_not_called():
    calls = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            return g / 0

    x = tensor([1.0], requires_grad=True)
    with bp.probe(nonfinite=True):
        loss = Counted.apply(x).sum()
        loss.backward()
    assert calls == [1]


def test_local_derivatives_are_saved(tmp_path):
    rec = bp.probe(left_out, nonfinite=True)(tensor([4.0, 0.0]))
    rec.save(tmp_path / "rec")
    (made,) = bp.load(tmp_path / "rec")["root"].finiteness.made
    assert (made.local.at, made.local.derivative, made.local.came) == ((1,), float("inf"), 0.0)
