"""A script in which NaN or Inf was found without ``--nonfinite``: it runs once more, and is looked at as with that."""

import json

import pytest

from commands import in_folder, invoked

HEAD = """\
import torch
from torch import nn
torch.manual_seed(3)
"""
ACOS = (
    HEAD
    + """\
angle = nn.Parameter(torch.tensor([1.0, 0.5]))
optimizer = torch.optim.Adam([angle], lr=0.1)
for _ in range(3):
    out = torch.acos(angle) * torch.tensor([0.0, 1.0])
    optimizer.zero_grad()
    out.sum().backward()
    optimizer.step()
"""
)
NORM = (
    HEAD
    + """\
from helper import length
net = nn.Linear(2, 2)
x, frozen = torch.zeros(4, 2), nn.Linear(2, 2)
optimizer = torch.optim.SGD([*net.parameters(), *frozen.parameters()], lr=0.1)
for step in range(3):
    size = length(x.clone().requires_grad_() * net.weight[0])
    loss = size.sum() + net(x).sum() * torch.rand(())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)
HELPER = "def length(x):\n    return x.pow(2).sum(-1).sqrt()\n"
AGAIN = "the script ran once more up to there, for the values and operations in which NaN and Inf begin"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Asks for the report on a script, as data."""

    def ask(text, *options, **files):
        names = {"train.py": text, **{f"{name}.py": code for name, code in files.items()}}
        with in_folder(tmp_path, monkeypatch, names):
            _, out, _ = invoked("explain", "--json", *options, "train.py")
        return json.loads(out.splitlines()[-1])

    return ask


def births(report):
    """Kind, line and reason of each birth."""
    return [
        (one["kind"], one["source"]["line"], one["headline"].partition(": ")[2])
        for one in report["findings"]
        if one["kind"].startswith("born")
    ]


@pytest.mark.parametrize(("text", "files"), [(ACOS, {}), (NORM, {"helper": HELPER})], ids=["acos", "norm"])
def test_what_is_born_and_why_is_said_as_with_the_option(asked, text, files):
    """Though a step has overwritten the parameters since; with remedies that are tried as far as they are there."""
    plain, looked = asked(text, **files), asked(text, "--nonfinite", **files)
    assert births(plain) == births(looked) != []
    assert all(reason for _, _, reason in births(plain))
    remedies = [[(one["tried"], one["remedy"]) for one in report["findings"]] for report in (plain, looked)]
    assert remedies[0][: len(remedies[1])] == remedies[1]
    assert AGAIN in plain["notes"]


def test_what_else_was_found_stays(asked):
    report = asked(NORM, helper=HELPER)
    assert [one for one in report["findings"] if "frozen" in one["headline"]]


def test_a_script_that_may_not_run_again_keeps_what_was_found(asked, tmp_path):
    text = f"with open({str(tmp_path / 'log')!r}, 'a') as log: log.write('ran ')\n" + ACOS
    report = asked(text)
    assert births(report) and AGAIN not in report["notes"]
    assert (tmp_path / "log").read_text() == "ran "
    assert any("was not tried" in note for note in report["notes"])


def test_without_experiments_it_runs_once(asked):
    report = asked(ACOS, "--no-experiments")
    assert births(report) and AGAIN not in report["notes"]


def test_numbers_that_another_run_does_not_give_again_leave_what_was_found(asked):
    """The second run ends where the first was stopped, though it has found nothing."""
    text = ACOS.replace("torch.tensor([1.0, 0.5])", "torch.tensor([1.0 if __import__('time').FIRST else 0.7, 0.5])")
    text = "import time\ntime.FIRST = not hasattr(time, 'FIRST')\n" + text.replace("range(3)", "range(100_000)")
    report = asked(text)
    assert births(report) and AGAIN not in report["notes"]
