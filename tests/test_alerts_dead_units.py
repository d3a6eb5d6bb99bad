"""A part of a layer's units is dead: said of a run, where the gradients of its bias and its weights show it."""

import pytest
import torch
from torch import nn

import backprobe as bp


def mlp(units=8, dead=6):
    model = nn.Sequential(nn.Linear(4, units), nn.ReLU(), nn.Linear(units, 1))
    model[0].bias.data[:dead] = -100.0
    return model, lambda: torch.randn(64, 4)


def convolution():
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 1))
    model[0].bias.data[:5] = -50.0
    return model, lambda: torch.randn(16, 1, 8, 8)


def deep():
    layers = [each for _ in range(3) for each in (nn.Linear(16, 16), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(16, 1))
    model[2].bias.data[1:12] = -40.0
    return model, lambda: torch.randn(32, 16)


def of_a_sequence():
    model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 1))
    model[0].bias.data[3:] = -30.0
    return model, lambda: torch.randn(4, 12, 6)


def few_dead():
    return mlp(dead=3)


def whole():
    return nn.Sequential(
        nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    ), lambda: torch.randn(64, 4)


class Heads(nn.Module):
    """Of many outputs the first alone is used: the others are no dead units."""

    def __init__(self):
        super().__init__()
        self.body, self.act, self.heads, self.act_of_heads = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10), nn.ReLU()

    def forward(self, x):
        return self.act_of_heads(self.heads(self.act(self.body(x)))[:, :3])


def of_one_sample():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), lambda: torch.randn(1, 4)


def sparse():
    model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 1))
    model[0].bias.data -= 1.0
    return model, lambda: torch.randn(16, 4)


FAULTY = {"units": mlp, "channels": convolution, "in the middle": deep, "of a sequence": of_a_sequence}
HEALTHY = {
    "few are dead": few_dead,
    "whole": whole,
    "of one sample": of_one_sample,
    "sparse": sparse,
    "heads": lambda: (Heads(), lambda: torch.randn(64, 4)),
}


def alerts(made, folder):
    torch.manual_seed(0)
    model, drawn = made()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with bp.watch(model, folder, optimizer=optimizer) as run:
        for _ in range(24):
            loss = (model(drawn()) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
    with bp.open_run(folder) as run:
        return run.alerts


@pytest.mark.parametrize("case", FAULTY)
def test_what_is_dead(case, tmp_path):
    found = alerts(FAULTY[case], tmp_path)
    (dead,) = found.of_kind("dead_units")
    assert dead.number > 0.5
    assert "units of" in dead.headline


@pytest.mark.parametrize("case", HEALTHY)
def test_what_is_not(case, tmp_path):
    assert not alerts(HEALTHY[case], tmp_path).of_kind("dead_units", "dead")


def test_a_run_agrees_with_a_recording(tmp_path):
    (dead,) = alerts(mlp, tmp_path).of_kind("dead_units")
    torch.manual_seed(0)
    model, drawn = mlp()
    (other,) = bp.health(bp.probe(model, of=lambda y: y.square().mean())(drawn())).of_kind("dead_units")
    assert (dead.name, dead.headline.partition(": ")[2]) == (other.name, other.headline)
    assert dead.remedy == other.remedy


def test_large_values_come_from_what_the_module_holds(tmp_path):
    (large,) = alerts(mlp, tmp_path / "bias").of_kind("large_values")
    assert "'0.bias'" in large.remedy and "inputs" not in large.remedy
    (large,) = alerts(lambda: (whole()[0], lambda: 200 * torch.randn(64, 4)), tmp_path / "inputs").of_kind(
        "large_values"
    )
    assert "the scale of the inputs" in large.remedy
