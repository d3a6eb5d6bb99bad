"""Clamp exactly at its bound: its derivative there is 1 up to PyTorch 2.13, and 0 from 2.14 on (1/2 for tensor bounds).

PyTorch itself says here which of them is right, so that this holds on all releases.
"""

import math

import pytest
import torch

import backprobe as bp

HALF = torch.zeros(())


def by_number(x):
    y = x.clamp(min=0)
    return y.sum()


def by_tensor(x):
    y = x.clamp(min=HALF)
    return y.sum()


def by_both(x):
    y = x.clamp(0, 1)
    return y.sum()


def root(x):
    y = x.clamp(min=0)
    z = torch.sqrt(y)
    return z.sum()


CLAMPED = [by_number, by_tensor, by_both]


def own(function, x):
    """The gradient that PyTorch gives."""
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(function(leaf), leaf)[0]


@pytest.mark.parametrize("function", CLAMPED)
def test_a_bound_is_a_kink_whatever_the_derivative_there(function):
    report = bp.check(function)(torch.tensor([0.0, 0.5, 4.0]))
    assert report.ok, report
    assert "at a kink" in str(report)


@pytest.mark.parametrize("function", CLAMPED)
def test_zeros_are_found_where_pytorch_gives_zeros(function):
    x = torch.zeros(6, 4)
    rec = bp.probe(function)(x)
    right = own(function, x)
    assert torch.equal(rec["x"].grad, right)
    assert bp.health(rec).ok is bool(right.any())


def test_a_birth_spreads_as_far_as_pytorch_lets_it():
    x = torch.tensor([0.0, 1.0, 4.0])
    rec = bp.probe(root, nonfinite=True)(x)
    right = own(root, x)
    assert torch.equal(rec["x"].grad, right)
    first = bp.explain(rec).findings[0]
    assert first.name == "z"
    assert ("path: z -> y -> x" in " ".join(str(first).split())) is not math.isfinite(right[0])


def test_a_remedy_is_finite_and_keeps_what_was():
    report = bp.explain(bp.probe(root, nonfinite=True)(torch.tensor([0.0, 1.0, 4.0])))
    assert "all 2 outputs and gradients are finite then" in " ".join(
        report.findings[0].facts + report.findings[0].tried
    )


def test_an_input_is_provoked_where_pytorch_breaks():
    breaks = not own(root, torch.zeros(3)).isfinite().all()
    assert bool(bp.provoke(root)(torch.ones(3)).findings) is bool(breaks)
