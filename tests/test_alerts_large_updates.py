"""Updates that are large beside the weights: no fault where weights begin near zero, and the loss does not rise."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import backprobe as bp


def factors(std=0.01, rate=0.01):
    u, v = nn.Embedding(40, 8), nn.Embedding(40, 8)
    model = nn.ModuleList([u, v])
    for each in model:
        nn.init.normal_(each.weight, std=std)
    table = torch.randn(40, 3) @ torch.randn(3, 40)

    def loss():
        a, b = torch.randint(40, (2, 256))
        return F.mse_loss((u(a) * v(b)).sum(1), table[a, b])

    return model, torch.optim.Adam(model.parameters(), rate), loss


def words():
    near, far = nn.Embedding(50, 8), nn.Embedding(50, 8)
    model = nn.ModuleList([near, far])
    nn.init.normal_(near.weight, std=0.005)
    nn.init.zeros_(far.weight)

    def loss():
        a = torch.randint(50, (64,))
        b = (a + torch.randint(1, 3, (64,))) % 50
        other = torch.randint(50, (64, 4))
        near_by = F.logsigmoid((near(a) * far(b)).sum(1))
        return -(near_by + F.logsigmoid(-(near(a)[:, None] * far(other)).sum(2)).sum(1)).mean()

    return model, torch.optim.Adam(model.parameters(), 0.01), loss


def from_zero(kind=torch.optim.Adam, rate=0.05):
    model, w = nn.Linear(6, 1), torch.randn(6, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)

    def loss():
        x = torch.randn(8, 6)
        return F.mse_loss(model(x), x @ w + torch.randn(8, 1))

    return model, kind(model.parameters(), rate), loss


def mlp(kind, rate):
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))

    def loss():
        x = torch.randn(64, 6)
        return F.cross_entropy(model(x), x[:, :3].argmax(1))

    return model, kind(model.parameters(), rate), loss


HEALTHY = {
    "factors": factors,
    "factors near zero": lambda: factors(0.001, 0.005),
    "words": words,
    "from zero": from_zero,
    "from zero by SGD": lambda: from_zero(torch.optim.SGD, 0.01),
    "a network": lambda: mlp(torch.optim.Adam, 3e-3),
}
FAULTY = {
    "Adam": lambda: mlp(torch.optim.Adam, 0.3),
    "SGD": lambda: mlp(torch.optim.SGD, 20.0),
    "RMSprop": lambda: mlp(torch.optim.RMSprop, 0.3),
    "factors": lambda: factors(0.3, 1.0),
}


def alerts(made, seed, folder, what=("value", "grad", "param", "update")):
    torch.manual_seed(seed)
    model, optimizer, loss = made()
    with bp.watch(model, folder, optimizer=optimizer, what=what) as run:
        for _ in range(12):
            value = loss()
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            run.log(loss=value)
    with bp.open_run(folder) as run:
        return run.alerts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", HEALTHY)
def test_a_healthy_training_is_silent(case, seed, tmp_path):
    assert not alerts(HEALTHY[case], seed, tmp_path).of_kind("large_updates")


@pytest.mark.parametrize("case", FAULTY)
def test_a_rate_that_is_too_high(case, tmp_path):
    assert alerts(FAULTY[case], 0, tmp_path).of_kind("large_updates")


WITHOUT = ("value", "grad", "param")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", HEALTHY)
def test_a_healthy_training_is_silent_without_updates(case, seed, tmp_path):
    assert not alerts(HEALTHY[case], seed, tmp_path, WITHOUT).of_kind("large_updates")


@pytest.mark.parametrize("made", [lambda: mlp(torch.optim.Adam, 1.0), FAULTY["SGD"]])
def test_weights_show_a_rate_that_is_too_high_without_updates(made, tmp_path):
    """They show less than the updates do, which are the same in both runs."""
    (found,) = alerts(made, 0, tmp_path / "a", WITHOUT).of_kind("large_updates")
    (whole,) = alerts(made, 0, tmp_path / "b").of_kind("large_updates")
    assert "at least" in found.headline and whole.step <= found.step < 10
