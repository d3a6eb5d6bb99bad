"""One definition of each word: ``health`` of a step and ``alerts`` of a run of that step say the same."""

import re

import pytest
import torch
from torch import nn

import backprobe as bp
from rules_page import RULES

WORDS = {"dead", "vanishing", "exploding"}


def stack(activation, *, layers=8, gain=1.0, bias=0.0):
    torch.manual_seed(0)
    parts = []
    for _ in range(layers):
        linear = nn.Linear(32, 32)
        nn.init.kaiming_normal_(linear.weight) if activation is nn.ReLU else nn.init.xavier_normal_(linear.weight)
        linear.weight.data *= gain
        linear.bias.data.fill_(bias)
        parts += [linear, activation()]
    return nn.Sequential(*parts, nn.Linear(32, 1))


def with_dead(units):
    model = stack(nn.ReLU, layers=1)
    model[0].bias.data[:units] = -50.0
    return model


MODELS = {
    "sigmoids": (lambda: stack(nn.Sigmoid), {"vanishing"}),
    "small weights": (lambda: stack(nn.Tanh, gain=0.3), {"vanishing"}),
    "large weights": (lambda: stack(nn.ReLU, gain=3.0), {"exploding"}),
    "three layers": (lambda: stack(nn.Identity, layers=3, gain=12.0), {"exploding"}),
    "all dead": (lambda: with_dead(32), {"dead"}),
    "half dead": (lambda: with_dead(20), set()),
    "some dead": (lambda: with_dead(6), set()),
    "healthy ReLUs": (lambda: stack(nn.ReLU), set()),
    "healthy tanhs": (lambda: stack(nn.Tanh), set()),
    "nearly vanishing": (lambda: stack(nn.Tanh, gain=0.6), set()),
}


def of_words(report):
    """Kind, name and headline of those that both know, without the step."""
    return {
        (one.kind, one.name, re.sub(r"^step \d+: ", "", one.headline)) for one in report.findings if one.kind in WORDS
    }


@pytest.mark.parametrize("case", MODELS)
def test_a_run_of_one_step_and_its_recording_say_the_same(case, tmp_path):
    made, expected = MODELS[case]
    model, x = made(), torch.randn(64, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        for _ in range(4):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    with bp.open_run(tmp_path) as run:
        alerts = run.alerts
    health = bp.health(bp.probe(model, of=lambda y: y.square().mean())(x))
    assert of_words(alerts) == of_words(health)
    assert {kind for kind, _, _ in of_words(health)} == expected
    for report in (alerts, health):
        for one in report.findings:
            if one.kind in WORDS:
                assert one.facts[0] == RULES[one.kind].means


def test_each_kind_has_one_rule():
    assert all(kind == rule.kind and rule.source and rule.statistic for kind, rule in RULES.items())
    assert {rule.kind for rule in RULES.values() if rule.is_of_runs and rule.is_of_recordings} >= WORDS
    assert all(rule.is_of_runs or rule.is_of_recordings for rule in RULES.values())
