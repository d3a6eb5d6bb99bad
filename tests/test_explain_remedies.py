"""Remedies that fit what the line does: what a partial hides, samples of whole numbers, the least of several."""

import functools

import pytest
import torch

import backprobe as bp
from goldens import golden, golden_note

squares = functools.partial(torch.autograd.functional.jacobian, lambda value: value * value)
nested = functools.partial(squares, strict=False)


@pytest.mark.parametrize("function", [squares, nested], ids=["a partial", "a partial of a partial"])
def test_a_partial_of_a_librarys_function_is_not_to_be_probed(function):
    def program(x, w):
        u = x * w
        k = function(u)
        return (k * w).sum()

    (found,) = bp.explain(bp.probe(program)(torch.ones(2), torch.ones(2)), "x").findings
    assert found.kind == "inside"
    assert "bp.probe(function)" not in found.remedy
    golden("explain", found)


def by_attribute(x, w):
    u = x * w
    k = getattr(u, "detach")()  # noqa: B009  # as it is written
    return (k * w).sum()


def by_another_name(x, w):
    u = x * w
    cut = torch.Tensor.detach
    k = cut(u)
    return (k * w).sum()


@pytest.mark.parametrize(("program", "named"), [(by_attribute, "torch.detach"), (by_another_name, "cut")])
def test_what_has_no_lines_is_not_to_be_probed_whatever_it_is_called(program, named):
    (found,) = bp.explain(bp.probe(program)(torch.ones(2), torch.ones(2)), "x").findings
    assert found.kind == "inside" and found.source.text.strip().startswith("k = ")
    assert "bp.probe(" not in found.remedy
    assert found.remedy.startswith(f"what runs there, {named}, has no lines to look into: leave it out")


def cut_inside(value, factor):
    return value.detach() * factor


def test_a_partial_of_the_programs_own_function_is_looked_into():
    doubled = functools.partial(cut_inside, factor=2)

    def program(x, w):
        u = x * w
        k = doubled(u)
        return (k * w).sum()

    (found,) = bp.explain(bp.probe(program)(torch.ones(2), torch.ones(2)), "x").findings
    assert (found.kind, found.source.text.strip()) == ("detach", "return value.detach() * factor")


@pytest.mark.parametrize("drawn", ["torch.bernoulli(p)", "torch.poisson(p)"])
def test_a_draw_of_whole_numbers_has_no_smooth_sample_of_its_own(drawn):
    def kept(w):
        p = torch.sigmoid(w)
        a = torch.bernoulli(p)
        return (a * w).sum()

    def counted(w):
        p = torch.sigmoid(w)
        a = torch.poisson(p)
        return (a * w).sum()

    program = {"torch.bernoulli(p)": kept, "torch.poisson(p)": counted}[drawn]
    report = bp.explain(bp.probe(program)(torch.ones(3)), "p")
    assert not any("rsample" in one.remedy or "argmax" in one.remedy for one in report.findings)


def test_a_draw_by_multinomial_asks_for_the_log_of_its_probability():
    def program(w):
        p = torch.softmax(w, 0)
        a = torch.multinomial(p, 1)
        return w[a].sum()

    found = bp.explain(bp.probe(program)(torch.ones(3)), "p").findings[0]
    assert found.kind == "sample"
    golden("explain", found)


def test_the_value_at_the_position_of_the_least_is_the_least():
    def program(x, w):
        d = (x - w).abs()
        return w[d.argmin()]

    (found,) = bp.explain(bp.probe(program)(torch.ones(3), torch.arange(3.0)), "d").findings
    assert found.remedy.endswith("whose gradient flows: d.min()")


def test_gradients_that_a_validation_left_switched_off_are_not_laid_to_its_own_lines():
    net = torch.nn.Linear(3, 1)

    def validated():
        torch.set_grad_enabled(False)
        return net(torch.ones(2, 3)).mean().item()

    try:
        with golden_note("explain", but=["item()"]):
            with bp.probe():
                score = validated()
                loss = net(torch.ones(4, 3)).square().mean()
                loss.backward()
    finally:
        torch.set_grad_enabled(True)
    assert isinstance(score, float)
