"""Cuts in lambdas: only the code that ran is blamed, and what the statement around a lambda binds is not cut off."""

import pytest
import torch
from torch import nn

import backprobe as bp


class Net(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.enc, self.head, self.part = nn.Linear(4, 8), nn.Linear(8, 2), part

    def forward(self, x):
        return self.part(self, x)


def trained(*parts):
    """What is said of models that run these parts, and of which one optimizer has all parameters."""
    models, x = [Net(part) for part in parts], torch.randn(8, 4)
    optimizer = torch.optim.SGD([one for model in models for one in model.parameters()], 0.1)
    with bp.probe() as rec:
        loss = sum(model(x).sum() for model in models)
        loss.backward()
        optimizer.step()
    return bp.explain(rec)


IN_A_DICT = {
    "detach": lambda self, x: self.head(self.enc(x).detach()),
    "data": lambda self, x: self.head(self.enc(x).data),
    "lines": lambda self, x: self.head(
        torch.relu(self.enc(x))
        .detach()
    ),
    "bare": (
        lambda self, x: self.head(torch.cat([x, x], 1))
        + self.enc(x).argmax(1)[:, None]
    ),
    "items": lambda self, x: self.head(torch.stack([self.enc(row).detach() for row in x])),
}  # fmt: skip
SAID = {
    "detach": "`self.enc(x).detach()` cuts",
    "data": "`self.enc(x).data`",
    "lines": ".detach()",
    "bare": "`self.enc(x).argmax(1)` gives positions",
    "items": "`self.enc(row).detach()` cuts",
}


@pytest.mark.parametrize("name", IN_A_DICT)
def test_of_lambdas_in_a_dict_the_one_that_ran_is_blamed(name):
    (found,) = trained(IN_A_DICT[name]).findings
    assert SAID[name] in found.headline
    assert "IN_A_DICT" not in str(found)
    first, blamed = IN_A_DICT[name].__code__.co_firstlineno, found.source.line
    assert blamed == first + {"lines": 2, "bare": 1}.get(name, 0)


def chosen(at, *parts, otherwise=None):
    return parts[at]


IN_A_CALL = [
    chosen(
        at,
        lambda self, x: self.head(self.enc(x).detach()),
        lambda self, x: self.head(torch.tensor(self.enc(x).tolist())),
        otherwise=lambda self, x: self.head(self.enc(x)),
    )
    for at in range(2)
]


def test_of_lambdas_in_the_arguments_of_a_call_the_one_that_ran_is_blamed():
    (first,), (second,) = trained(IN_A_CALL[0]).findings, trained(IN_A_CALL[1]).findings
    assert "self.enc(x).detach()" in first.headline
    assert "tolist" in second.headline
    assert second.source.line == first.source.line + 1
    assert "IN_A_CALL" not in str(first) + str(second)


PAIR = (lambda self, x: self.head(self.enc(x).detach()), lambda self, x: self.head(self.enc(x).sign().data))


@pytest.mark.parametrize(("at", "said", "other"), [(0, "detach()", "data"), (1, ".data", "detach()")])
def test_of_two_lambdas_in_one_line_the_one_that_ran_is_blamed(at, said, other):
    (found,) = trained(PAIR[at]).findings
    assert said in found.headline
    assert other not in str(found)
    assert "PAIR" not in str(found)


ALIKE = (lambda self, x: self.head(self.enc(x).detach()), lambda own, x: own.head(own.enc(x).detach()))


def test_of_two_lambdas_in_one_line_that_both_ran_each_is_blamed_for_its_own():
    first, second = trained(*ALIKE).findings
    assert "`self.enc(x).detach()`" in first.headline
    assert "`own.enc(x).detach()`" in second.headline
    assert all("enc.weight" in str(found) for found in (first, second))


def test_a_lambda_beside_the_call_in_its_statement_is_not_blamed():
    def forward(self, x):
        kept = chosen(1, lambda: self.enc(x).detach(), self.enc(x))
        return self.head(kept.data)

    (found,) = trained(forward).findings
    assert "detach()" not in found.headline


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))

    forward = lambda self, x: x * self.weight.detach() + self.bias  # noqa: E731


def test_a_forward_that_is_a_lambda_is_read():
    model = Scale()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bp.probe() as rec:
        model(torch.ones(4)).sum().backward()
        optimizer.step()
    (found,) = bp.explain(rec).findings
    assert "`self.weight.detach()`" in found.headline
    assert "'forward'" not in str(found)
