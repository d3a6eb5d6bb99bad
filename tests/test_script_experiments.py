"""What is tried of a whole script that was explained: it runs again, and leaves everything as it was."""

import json
import os
import random
import subprocess
import sys
from functools import partial
from importlib import import_module
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from commands import in_folder, invoked, python
from faults import Faults

HEAD = """\
import torch
from torch import nn
torch.manual_seed(3)
stem, top = nn.Linear(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*stem.parameters(), *top.parameters()], lr=0.1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
"""
LOOP = """\
for _ in range(3):
    {}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BOTH = "with this line bridged, the gradients of 2 parameters arrive"


def cured(line, at="train.py:8"):
    """What is said of a line with which the gradients of both parameters arrive."""
    return f"`{line}` at {at}: 2 of 2 missing gradients arrive; the loss is the same"


@pytest.fixture
def found(tmp_path, monkeypatch):
    """Asks for the findings of a script, each as its line and what was tried."""

    def ask(lines, *options, head=HEAD, before="", **files):
        text = head + before + LOOP.format(lines.replace("\n", "\n    "))
        names = {"train.py": text, **{f"{name}.py": code for name, code in files.items()}}
        with in_folder(tmp_path, monkeypatch, names):
            code, out, err = invoked("explain", "--json", *options, "train.py")
        report = json.loads(out.splitlines()[-1])
        ask.report = report
        return [(one["source"] and one["source"]["text"], one["tried"]) for one in report["findings"]]

    return ask


@pytest.mark.parametrize(
    ("line", "more", "said"),
    [
        ("h = stem(x).detach()", "loss = (top(h) - y).square().mean()", cured("h = stem(x)")),
        ("h = torch.from_numpy(stem(x).detach().numpy() * 2)", "loss = (top(h) - y).square().mean()", BOTH),
        (
            "scale = stem(x).sum().item()",
            "loss = (top(torch.ones(8, 4)) * scale - y).square().mean()",
            cured("scale = stem(x).sum()"),
        ),
        ("at = stem(x).argmax(1)", "loss = (top(torch.eye(4)[at]) - y).square().mean()", BOTH),
        ("h = [stem(x).detach(), x]", "loss = (top(h[0]) - y).square().mean()", cured("h = [stem(x), x]")),
    ],
)
def test_the_gradients_arrive_over_the_line(found, line, more, said):
    assert (line, [said]) in found(f"{line}\n{more}")


def test_a_comment_behind_a_line_is_left_out(found):
    given = found("h = stem(x).detach()      # a target\nloss = (top(h) - y).square().mean()")
    assert [tried for _, tried in given] == [[cured("h = stem(x)")]]


def test_the_gradient_of_one_value_is_named(found):
    head = HEAD.replace("stem, top", "w = nn.Parameter(torch.ones(4))\nstem, top").replace("[*stem", "[w, *stem")
    assert found("h = stem(x) * w.data\nloss = (top(h) - y).square().mean()", head=head) == [
        ("h = stem(x) * w.data", ["`h = stem(x) * w` at train.py:9: the gradient of 'w' arrives; the loss is the same"])
    ]


def test_gradients_are_off_for_several_lines(found):
    lines = "with torch.no_grad():\n    h = stem(x)\n    h = h.relu()\nloss = (top(h) - y).square().mean()"
    assert [cured("with torch.enable_grad():")] in [tried for _, tried in found(lines)]


def test_a_function_that_a_library_calls(found):
    code = """\
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        return given[0] * 2
    @staticmethod
    def backward(ctx, gradient):
        return None
"""
    ((line, tried),) = found("h = Own.apply([stem(x)])\nloss = (top(h) - y).square().mean()", before=code)
    assert (line, tried) == ("h = Own.apply([stem(x)])", [BOTH])


def test_a_line_in_another_module(found):
    own = "def passed_on(value):\n    made = value.detach() + 1\n    return made\n"
    lines = "h = passed_on(stem(x))\nloss = (top(h) - y).square().mean()"
    assert found(lines, before="from own import passed_on\n", own=own) == [
        ("made = value.detach() + 1", [cured("made = value + 1", "own.py:2")])
    ]
    assert "own" not in sys.modules


NET = """\
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, penalty):
        return hidden.clone()
    @staticmethod
    def backward(ctx, gradient):
        return gradient, torch.ones(())
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.out, self.gate = nn.LayerNorm(4), nn.Linear(4, 1), nn.Linear(4, 1)
    def forward(self, h):
        {}
        return self.out(h)
net = Net()
optimizer.add_param_group({{"params": list(net.parameters())}})
"""


@pytest.mark.parametrize(
    ("line", "kept", "loss"),
    [
        ("Own.apply(h, self.gate(h).sum())", "h = Own.apply(h, self.gate(h).sum())", "is the same"),
        ("self.norm(h)", "h = self.norm(h)", "changes by up to"),
    ],
)
def test_a_result_that_is_dropped_is_kept(found, line, kept, loss):
    given = found("h = stem(x)\nloss = (net(h) + top(h) - y).square().mean()", before=NET.format(line))
    ((tried,),) = [tried for text, tried in given if text == line]
    assert tried.startswith(f"`{kept}` at train.py:") and f"2 of 2 missing gradients arrive; the loss {loss}" in tried


def test_a_result_that_is_dropped_and_given_no_name_is_not_proven(found):
    given = found("loss = (net(stem(x)) - y).square().mean()\nnet(stem(x).relu())", before=NET.format("h.neg()"))
    assert given and not any(tried for _, tried in given)


def test_a_line_that_the_loss_does_not_depend_on(found):
    lines = "h = torch.zeros(*stem(x).detach().shape)\nloss = (top(h) - y).square().mean()"
    assert not any(tried for _, tried in found(lines))


def test_random_numbers_come_again(found):
    lines = "h = stem(x).detach() * torch.rand(4)\nloss = (top(h) - y).square().mean()"
    assert [cured("h = stem(x) * torch.rand(4)")] in [tried for _, tried in found(lines)]
    given = found(lines, head=HEAD.replace("torch.manual_seed(3)\n", ""))
    assert [cured("h = stem(x) * torch.rand(4)", "train.py:7")] in [tried for _, tried in given]


def test_nothing_is_said_of_a_run_that_goes_another_way(found):
    before = "import time\nnow = time.time_ns() % 1000003 / 1000\n"
    lines = "h = stem(x).detach() * now\nloss = (top(h) - y).square().mean()"
    given = found(lines, before=before)
    assert given and not any(tried for _, tried in given)


def test_it_may_be_switched_off(found):
    lines = "h = stem(x).detach()\nloss = (top(h) - y).square().mean()"
    with_tried = found(lines)
    report = found.report
    assert [text for text, _ in found(lines, "--no-experiments")] == [text for text, _ in with_tried]
    assert not any(one["tried"] for one in found.report["findings"]) and found.report["notes"] == report["notes"]


LINES = "h = stem(x).detach()\nloss = (top(h) - y).square().mean()"


def test_a_long_script_does_not_run_again(found, monkeypatch):
    monkeypatch.setattr(import_module("backprobe.probe.script_experiments"), "LONGEST", 0.0)
    assert found(LINES)[0] == ("h = stem(x).detach()", [])
    assert any("runs again only below 0 s" in note for note in found.report["notes"])


def test_the_time_for_experiments_ends(found, monkeypatch):
    clock = SimpleNamespace(monotonic=partial(next, count(step=20)))  # each look at it takes 20 s
    monkeypatch.setattr(import_module("backprobe.probe.script_experiments"), "time", clock)
    assert found(LINES)[0] == ("h = stem(x).detach()", [])
    assert "not all that was found was tried: the 30 s for that were over" in found.report["notes"]


@pytest.mark.parametrize(
    ("code", "effect"),
    [
        ("with open('log.txt', 'a') as log: log.write('x')", "opens log.txt for writing"),
        ("torch.save(stem.state_dict(), 'stem.pt')", "opens a file by PyTorchFileWriter for writing"),
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])", "starts a process"),
    ],
)
def test_it_ends_where_something_is_seen_outside(found, tmp_path, code, effect):
    given = found("h = stem(x).detach()\nloss = (top(h) - y).square().mean()", before=f"{code}\n")
    assert given and not any(tried for _, tried in given)
    assert f"what was found was not tried: run again, the script {effect}" in found.report["notes"]
    if effect.startswith("opens log"):
        assert (tmp_path / "log.txt").read_text() == "x"


def test_the_process_is_as_it_was(found, monkeypatch):
    monkeypatch.setenv("OWN", "before")
    before = """\
import atexit, os, random, sys, builtins
import numpy as np
import own
builtins.seen = getattr(builtins, "seen", 0) + 1
os.environ["OWN"] = os.environ["OWN"] + "x"
own.held.append(1)
atexit.register(own.held.append, 2)
torch.set_default_dtype(torch.float32)
print("printed")
random.random(), np.random.rand()
"""
    import builtins

    lines = "h = stem(x).detach()\nloss = (top(h) - y).square().mean()"
    torch.manual_seed(5), random.seed(5), np.random.seed(5)
    found(lines, "--no-experiments", before=before, own="held = []\n")
    states = torch.rand(1).item(), random.random(), np.random.rand(), os.environ["OWN"]
    names, folder, path, argv = {*vars(builtins)}, os.getcwd(), [*sys.path], [*sys.argv]
    monkeypatch.setenv("OWN", "before")
    torch.manual_seed(5), random.seed(5), np.random.seed(5)
    given = found(lines, before=before, own="held = []\n")
    assert [cured("h = stem(x)", "train.py:18")] in [tried for _, tried in given]
    assert (torch.rand(1).item(), random.random(), np.random.rand(), os.environ["OWN"]) == states
    assert ({*vars(builtins)}, os.getcwd(), sys.path, sys.argv) == (names, folder, path, argv)
    del builtins.seen


def test_gradients_are_found_missing_as_before(found):
    """The findings are the same, in the same order."""
    lines = "h = stem(x).detach()\nz = top(h).detach()\nloss = (z * top(h) - y).square().mean()"
    found(lines, "--no-experiments")
    without = found.report["findings"]
    found(lines)
    assert [{**one, "tried": []} for one in found.report["findings"]] == without


@pytest.mark.parametrize("between", ["", "shown = h.mean().item()\n"])
def test_a_second_cut_behind_a_line(found, between):
    """What does not cut is not named, as numbers for people."""
    lines = f"h = stem(x).detach()\n{between}k = torch.exp(h).data\nloss = (top(k) - y).square().mean()"
    last = 10 if between else 9
    assert found(lines) == [
        ("h = stem(x).detach()", [cured("h = stem(x)` at train.py:8 and `k = torch.exp(h)", f"train.py:{last}")])
    ]


def test_a_second_cut_that_has_no_edit(found):
    lines = (
        "h = stem(x).detach()\nk = h.argmax(1).float()[:, None]\nloss = (top(k * torch.ones(4)) - y).square().mean()"
    )
    said = "with this line and train.py:9 bridged, the gradients of 2 parameters arrive"
    assert found(lines) == [("h = stem(x).detach()", [said])]
    assert found.report["findings"][0]["remedy"]


TWICE = """\
class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 4)
    def forward(self, x):
        h = self.inner(x).detach()
        k = torch.exp(h).data
        return k + 1
"""


def test_a_second_cut_where_a_library_calls_the_function_of_both(found):
    head = HEAD.replace("stem, top = nn.Linear(3, 4)", f"{TWICE}stem, top = Stem()")
    said = cured("h = self.inner(x)` at train.py:9 and `k = torch.exp(h)", "train.py:10")
    assert [said] in [tried for _, tried in found("loss = (top(stem(x)) - y).square().mean()", head=head)]


SEVERAL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(8, 1)
    def forward(self, x):
        a = self.a(x).relu().data
        b = torch.from_numpy(np.tanh(self.b(x).detach().numpy()))
        return self.c(torch.cat([a, b], 1))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def test_a_patch_of_a_script(found, tmp_path):
    """The patch holds both edits, which were tried together, and the cause is gone with it."""
    head, lines = f"import numpy as np\n{HEAD}", "loss = (net(x) - y).square().mean()"
    given = found(lines, "--patch", "fix.diff", head=head, before=SEVERAL)
    assert all(tried for _, tried in given), given
    assert sorted(tried[0].split("`")[1] for _, tried in given) == ["a = self.a(x).relu()", "b = torch.tanh(self.b(x))"]
    subprocess.run(["git", "init", "-q", "."], check=True, cwd=tmp_path)
    subprocess.run(["git", "apply", "fix.diff"], check=True, cwd=tmp_path)
    text = (tmp_path / "train.py").read_text()
    edited = SEVERAL.replace(".data", "").replace(
        "torch.from_numpy(np.tanh(self.b(x).detach().numpy()))", "torch.tanh(self.b(x))"
    )
    assert text == head + edited + LOOP.format(lines)
    assert invoked("explain", str(tmp_path / "train.py"))[0] == 0


def test_a_remedy_that_cures_nothing_is_not_printed(found):
    """Of this line nothing but its edit can be meant, and behind that another function cuts."""
    before = (
        "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, h):\n        return h * 1.0\n"
    )
    before += "    @staticmethod\n    def backward(ctx, gradient):\n        return None\n"
    found("h = Own.apply(stem(x)).detach()\nloss = (top(h) - y).square().mean()", before=before)
    (one,) = [one for one in found.report["findings"] if one["source"]["text"].startswith("h = Own")]
    assert one["remedy"] == "" and "bridged" in one["tried"][0]


MASKED = """\
import torch
from torch import nn
torch.manual_seed(0)
att = nn.MultiheadAttention(8, 2, batch_first=True)
optimizer = torch.optim.Adam(att.parameters())
x, hidden = torch.randn(2, 3, 8), torch.tensor([[True] * 3, [False] * 3])
"""


def test_a_mask_is_not_moved_by_a_rounding_error(found):
    """The sum of booleans and a number is a mask of floats, which hides nothing: NaN is gone, and so is the mask."""
    found("y, _ = att(x, x, x, key_padding_mask=hidden)\nloss = y[~hidden].pow(2).mean()", head=MASKED)
    born = [one for one in found.report["findings"] if one["kind"] == "born"]
    assert born and not any("1.19e-07" in text for one in born for text in (one["remedy"], *one["facts"]))


def test_a_remedy_that_changes_the_loss_says_so(found):
    """It is not written into a patch: a number drawn with another function is another number."""
    lines = "h = torch.distributions.Normal(stem(x), 1.0).sample()\nloss = (top(h) - y).square().mean()"
    ((_, (tried,)),) = found(lines, "--patch", "fix.diff")
    assert "`h = torch.distributions.Normal(stem(x), 1.0).rsample()` at train.py:8: 2 of 2" in tried


OF_SCRIPTS = (
    "probe/script_experiments.py",
    "probe/bridged_run.py",
    "source/bridged_code.py",
    "source/hooked_modules.py",
    "backends/torch/bridging.py",
    "backends/side_effects.py",
)


@pytest.mark.parametrize("every", [16, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_report_of_a_script_is_what_it_was_whatever_fails(found, every):
    lines = "h = stem(x).detach()\nloss = (top(h) - y).square().mean()"
    plain = [line for line, _ in found(lines, "--no-experiments")]
    faults = Faults(OF_SCRIPTS)
    whole = faults.during(lambda: found(lines))
    assert any(tried for _, tried in whole)
    assert len(faults.called) > 40
    for name in [*faults.called][::every]:
        fault = Faults(OF_SCRIPTS, name)
        now = fault.during(lambda: found(lines))
        assert fault.has_raised, name
        assert [line for line, _ in now] == plain, name


def test_a_script_without_a_seed_has_the_random_numbers_of_its_process_again(tmp_path, monkeypatch):
    lines = "h = stem(x).detach()\n    loss = (top(h) - y).square().mean()"
    script = HEAD.replace("torch.manual_seed(3)\n", "\n") + LOOP.format(lines)
    with in_folder(tmp_path, monkeypatch, {"train.py": script}):
        out = python("-m", "backprobe", "explain", "train.py")[1]  # PyTorch is imported by the script alone
    assert cured("h = stem(x)") in out
