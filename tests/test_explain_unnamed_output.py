"""Causes where backward runs from an expression without a name, and samples whose derivative is zero."""

import pytest
import torch
from torch import nn

import backprobe as bp


def _detached(u, w):
    y = u.detach() * 3 + (u.detach() ** 2)
    (y * w).sum().backward()


def _number(u, w):
    y = u.sum().item()
    (w * y).sum().backward()


def _integer(u, w):
    k = u.argmax()
    w[k].backward()


@pytest.mark.parametrize(
    ("program", "kind", "text"),
    [
        (_detached, "detach", "`u.detach()`"),
        (_number, "number", "`u.sum().item()`"),
        (_integer, "index", "`u.argmax()`"),
    ],
)
def test_what_cuts_a_value_off_before_an_expression_without_a_name(program, kind, text):
    w = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        u = w * 2
        program(u, w)
    report = bp.explain(rec, "u")
    assert kind in [finding.kind for finding in report.findings]
    assert text in str(report)


def test_the_parameters_of_a_model_that_is_cut_off_before_it():
    model, w = nn.Linear(2, 2), torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        u = model(torch.ones(2))
        y = u.detach()
        (y * w).sum().backward()
    report = bp.explain(rec)
    assert not report.ok
    assert report.findings[0].kind == "detach"
    assert "model.weight, model.bias" in str(report)


def test_what_is_not_used_is_not_said_to_be_cut_off():
    w = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        u = w * 2
        shown, mean = u.detach(), u.mean().item()
        (w * 3).sum().backward()
    del shown, mean
    assert [finding.kind for finding in bp.explain(rec, "u").findings] == ["unused"]


@pytest.mark.parametrize(
    "drawn", [lambda p: torch.normal(p, 1.0), lambda p: torch.bernoulli(p), lambda p: torch.poisson(p)]
)
def test_a_sample_whose_derivative_is_zero_is_a_note(drawn):
    p = torch.full((3,), 0.5, requires_grad=True)
    with bp.probe() as rec:
        s = drawn(p)
        loss = (s**2).sum() + (p**2).sum()
        loss.backward()
    report = bp.explain(rec)
    assert report.ok
    assert any("with respect to 'p' is 0" in note for note in report.notes)


def test_a_sample_that_is_computed_from_noise_is_none():
    mean = torch.zeros(3, requires_grad=True)
    with bp.probe() as rec:
        z = mean + torch.randn(3)
        loss = (z**2).sum()
        loss.backward()
    assert bp.explain(rec).notes == ()


# inputs that were not used, however they are given


@pytest.mark.parametrize("given", [iter, list, tuple])
def test_unused_parameters_are_named_however_they_are_given(given):
    model = nn.ModuleDict({"used": nn.Linear(3, 1), "idle": nn.Embedding(3, 3)})
    with pytest.raises(RuntimeError) as caught, bp.probe():
        loss = model["used"](torch.ones(2, 3)).sum()
        torch.autograd.grad(loss, given(model.parameters()))
    assert "back to model.idle.weight" in caught.value.__notes__[-1]
