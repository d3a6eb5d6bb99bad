"""Parameters that methods, properties, parametrisations and helper functions take out of the graph, in blocks."""

import functools

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

import backprobe as bp

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
@pytest.mark.parametrize("kind, cut", [
    (ByProperty, "self.raw.data"), (ByCachedProperty, "self.raw.detach()"), (ByMethodOfMethod, "self.raw.tolist()"),
])  # fmt: skip
def test_a_cut_in_a_method_that_forward_uses(kind, cut, of_model):
    net = kind()
    (finding,) = reported(net, bp.probe(net) if of_model else bp.probe()).findings
    assert cut in finding.headline
    assert cut in finding.source.text


def test_what_only_sets_a_parameter_is_no_use_of_it():
    (finding,) = reported(Unmentioned(), bp.probe()).findings
    assert finding.headline == "'net.raw' is not mentioned in the forward() of 'net'"


class Unit(nn.Module):
    def forward(self, weight):
        return (weight / weight.norm()).detach()


def test_a_cut_in_a_parametrisation_is_not_one_of_what_the_model_gives():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    register_parametrization(net[0], "weight", Unit())
    report = reported(net, bp.probe())
    (finding,) = report.findings
    assert finding.source.text == "return (weight / weight.norm()).detach()"
    assert "parameters without a gradient because of it: net.0.parametrizations.weight.original" in str(report)


def gain(x, by):
    return x * by.detach()


class ByHelper(Scaled):
    def forward(self, x):
        return self.head(gain(x, self.raw))


def test_a_cut_of_a_parameter_in_a_function_that_it_is_given_to():
    (finding,) = reported(ByHelper(), bp.probe()).findings
    assert finding.source.text == "return x * by.detach()"
    assert "by.detach()" in finding.headline
