"""Parameters that forwards, methods, properties, parametrisations and helpers take out of the graph, in blocks."""

import functools
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

import backprobe as bp
from goldens import golden

X = torch.ones(2, 3)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw, self.head = nn.Parameter(torch.ones(3)), nn.Linear(3, 1)
        self.reset()

    def reset(self):
        self.raw.data.fill_(0.5)

    def forward(self, x):
        return self.head(x * self.scale)


class ByProperty(Scaled):
    @property
    def scale(self):
        return torch.exp(self.raw.data)


class ByCachedProperty(Scaled):
    @functools.cached_property
    def scale(self):
        return torch.softmax(self.raw.detach(), 0)


class ByMethodOfMethod(Scaled):
    def numbers(self):
        return torch.tensor(self.raw.tolist())

    @property
    def scale(self):
        return self.numbers() * 2


class Unmentioned(Scaled):
    scale = 2.0


def reported(net, block):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with block as rec:
        loss = net(X).square().mean()
        loss.backward()
        optimizer.step()
    report = bp.explain(rec)
    assert not report.ok
    return report


@pytest.mark.parametrize("of_model", [True, False])
@pytest.mark.parametrize(
    "kind, cut",
    [(ByProperty, "self.raw.data"), (ByCachedProperty, "self.raw.detach()"), (ByMethodOfMethod, "self.raw.tolist()")],
)
def test_a_cut_in_a_method_that_forward_uses(kind, cut, of_model):
    net = kind()
    (finding,) = reported(net, bp.probe(net) if of_model else bp.probe()).findings
    assert cut in finding.headline
    assert cut in finding.source.text


def test_what_only_sets_a_parameter_is_no_use_of_it():
    (finding,) = reported(Unmentioned(), bp.probe()).findings
    golden("explain", finding)


class Unit(nn.Module):
    def forward(self, weight):
        return (weight / weight.norm()).detach()


def test_a_cut_in_a_parametrisation_is_not_one_of_what_the_model_gives():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    register_parametrization(net[0], "weight", Unit())
    report = reported(net, bp.probe())
    (finding,) = report.findings
    assert finding.source.text == "return (weight / weight.norm()).detach()"
    assert finding.lost == ("net.0.parametrizations.weight.original",)
    assert finding.consequence == "net.0.parametrizations.weight.original gets no gradient"
    golden("explain", report)


class DataBeside(nn.Module):
    """Its weight gets a gradient from a penalty alone."""

    def __init__(self):
        super().__init__()
        self.weight, self.inner, self.head = nn.Parameter(torch.ones(3, 3)), nn.Linear(3, 3), nn.Linear(3, 1)


class InAnExpression(DataBeside):
    def forward(self, x):
        return self.head(torch.tanh(self.inner(x) @ self.weight.data))


class UnderAName(DataBeside):
    def forward(self, x):
        taken = self.weight.data
        return self.head(torch.tanh(self.inner(x) @ taken))


class OfAnother(DataBeside):
    def forward(self, x):
        h = nn.functional.linear(x @ self.weight, self.inner.weight.data, self.inner.bias)
        return self.head(h)


def noted_beside_a_penalty(net):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with bp.probe() as rec:
        penalty = sum(one.square().sum() for one in net.parameters())
        loss = net(X).square().mean() + 1e-3 * penalty
        loss.backward()
        optimizer.step()
    report = bp.explain(rec)
    assert report.ok
    return [note for note in report.notes if "(data)" in note]


@pytest.mark.parametrize(
    "kind, cut", [(InAnExpression, "`self.weight`"), (UnderAName, "`self.weight`"), (OfAnother, "`self.inner.weight`")]
)
def test_data_of_a_parameter_beside_a_penalty_is_noted(kind, cut):
    (note,) = noted_beside_a_penalty(kind())
    golden("explain", note)


class OfABatch(DataBeside):
    def forward(self, x):
        batch = SimpleNamespace(data=x * 2)
        return self.head(self.inner(batch.data) @ self.weight)


def test_an_attribute_that_only_is_called_data_is_none():
    assert noted_beside_a_penalty(OfABatch()) == []


def gain(x, by):
    return x * by.detach()


class ByHelper(Scaled):
    def forward(self, x):
        return self.head(gain(x, self.raw))


def test_a_cut_of_a_parameter_in_a_function_that_it_is_given_to():
    (finding,) = reported(ByHelper(), bp.probe()).findings
    assert finding.source.text == "return x * by.detach()"
    assert "by.detach()" in finding.headline
