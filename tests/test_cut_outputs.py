"""A loss that is cut off inside the function given as of=, and models that are frozen as a whole: a cause is said."""

import pytest
import torch
from torch import nn

import backprobe as bp
from goldens import golden

X = torch.ones(3, 2)


def detached(y):
    return y.detach().sum()


def number(y):
    return torch.tensor(y.sum().item())


def another(y):
    return torch.zeros(())


def frozen():
    return nn.Linear(2, 1).requires_grad_(False)


def frozen_parts():
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1)).requires_grad_(False)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x):
        return x * self.scale


@pytest.mark.parametrize("of", [detached, number, another])
def test_a_cut_in_the_function_that_makes_the_loss_is_said(of):
    with pytest.raises(bp.NothingToDifferentiate, match="of= cuts the output off: the return value has a") as caught:
        bp.probe(nn.Linear(2, 1), of=of)(X)
    assert f"found: {of.__name__}, " in str(caught.value)
    assert f"test_cut_outputs.py:{of.__code__.co_firstlineno}" in str(caught.value)
    assert f"bp.probe({of.__name__})(x)" in str(caught.value)


def test_the_proposed_call_names_the_line_of_a_lambda():
    model = nn.Linear(2, 1)
    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(model, of=lambda y: y.detach().sum())(X)
    call, _, said = caught.value.next.partition(", with x ")
    assert call == "bp.probe(lambda y: y.detach().sum())(x)"
    assert said == "the value given to it: it names the line that cuts x off"
    with pytest.raises(bp.NothingToDifferentiate) as again:
        bp.probe(lambda y: y.detach().sum())(model(X))
    assert "`y.detach()` cuts 'return' off from 'y'" in again.value.__notes__[0]
    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(model, of=eval("lambda y: y.detach().sum()"))(X)
    assert caught.value.next.startswith("bp.probe(f)(x), with f this function and x the value given to it")


def test_its_remedy_names_the_line():
    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(detached)(X)
    assert "`y.detach()` cuts 'return' off from 'y'" in caught.value.__notes__[0]
    golden("explain", caught.value.__notes__[0])


@pytest.mark.parametrize(
    "model, names", [(frozen, "weight, bias"), (frozen_parts, "{0..2}.{weight,bias}"), (Scaled, "scale")]
)
def test_a_frozen_model_is_said_to_be(model, names):
    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(model(), of=torch.sum)(X)
    (note,) = caught.value.__notes__
    golden("explain", note)


def test_its_remedy_cures():
    assert bp.probe(frozen().requires_grad_(), of=torch.sum)(X)["weight"].grad.any()


def within(x, w):
    u = x * w
    with torch.no_grad():
        scale = 2
        h = u * scale
    return (h * w).sum()


@torch.no_grad()
def decorated(u):
    k = u * 2
    return k


def by_a_decorator(x, w):
    u = x * w
    h = decorated(u)
    return (h * w).sum()


@pytest.mark.parametrize("program, line", [(within, "with torch.no_grad():"), (by_a_decorator, "@torch.no_grad()")])
def test_the_line_that_switches_gradients_off_is_named(program, line):
    report = str(bp.explain(bp.probe(program)(torch.ones(3), torch.ones(3))))
    assert "switched off at " in report and f": {line}" in report
