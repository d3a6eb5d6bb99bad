"""Each alert has the line in which its module is called."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from torch import nn

import backprobe as bp
from written_runs import writer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.unused = nn.Linear(4, 16), nn.Linear(4, 16)
        self.rest = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        h = torch.tanh(self.first(x))  # the first layer
        return self.rest(h)  # the others


def trained(folder, model, steps=12):
    nn.init.constant_(model.rest[0].bias, -100.0)  # no unit of it is ever above 0
    optimizer = torch.optim.SGD([*model.first.parameters(), *model.rest.parameters()], lr=0.01)
    with bp.watch(model, folder, optimizer=optimizer) as run:
        for x in torch.randn(steps, 8, 4):
            loss = model(x).square().mean()  # the step
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)


def line_with(text):
    return 1 + next(at for at, line in enumerate(Path(__file__).read_text().split("\n")) if line.endswith(text))


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    trained(tmp_path, Net())
    with bp.open_run(tmp_path) as opened:
        yield opened


def test_a_module_has_the_line_of_its_call(run):
    (dead,) = run.alerts.of_kind("dead")
    at = line_with("# the others")
    assert dead.name == "rest.1"
    assert dead.source.file == __file__
    assert (dead.source.line, dead.source.text) == (at, "return self.rest(h)  # the others")
    assert dead.headline.startswith("step 3: 'rest.1' is dead")
    assert dead.title.startswith(f"step 3: 'rest.1' (test_alert_lines.py:{at}) is dead")
    assert f"test_alert_lines.py:{at}: return self.rest(h)" in str(dead)


def test_a_parameter_has_the_line_of_its_module(run):
    (zero,) = run.alerts.of_kind("zero_gradient")
    assert zero.name == "rest.2.weight"
    assert zero.source.line == line_with("# the others")
    assert run._reader.lines()["first"].line == line_with("# the first layer")
    assert run._reader.lines()["return"].line == line_with("# the step")


def test_what_was_not_called_has_no_line(run):
    (left,) = run.alerts.of_kind("left_out")
    assert left.name == "unused.weight"
    assert left.source is None
    assert "test_alert_lines" not in str(left)


def test_a_loss_has_no_line(tmp_path):
    model = nn.Linear(4, 1)
    with bp.watch(model, tmp_path) as run:
        model(torch.ones(2, 4)).sum().backward()
        run.log(loss=float("nan"))
        run.step()
    with bp.open_run(tmp_path) as run:
        (alert,) = run.alerts.findings
        assert (alert.name, alert.source) == ("loss", None)


def test_a_run_from_before_is_read_and_goes_on(tmp_path):
    trained(tmp_path, Net())
    with closing(sqlite3.connect(tmp_path / "rank-0.sqlite")) as file:
        file.execute("DROP TABLE lines")
    with bp.open_run(tmp_path) as run:
        assert run.alerts.of_kind("dead")[0].source is None
    writer(tmp_path).close()
    trained(tmp_path, Net())
    with bp.open_run(tmp_path) as run:
        assert len(run.steps) == 24
        assert run.alerts.of_kind("dead")[0].source.line == line_with("# the others")


def test_the_first_of_several_calls_counts(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            x = self.layer(x)  # once
            return self.layer(x)  # twice

    model = Twice()
    with bp.watch(model, tmp_path) as run:
        model(torch.ones(2, 4)).sum().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        assert run._reader.lines()["layer"].line == line_with("# once")
