"""Names that a script's report prints select the same values in ``bp.probe(model, ...)``."""

import importlib
import re

import pytest
import torch
from torch import nn

import backprobe as bp
from commands import in_folder, invoked

TEXT = """\
import torch
from torch import nn

class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(2, 2)
        self.experts = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])

    def forward(self, x):
        logits = self.gate(x)
        index = logits.argmax(-1)
        out = torch.stack([one(x) for one in self.experts])
        mixed = out.mean(0) + logits.detach()
        return mixed

def squared(g):
    k = g.sum()
    return k * k

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Linear(2, 2)
        self.moe = MoE()
        self.seq = nn.Sequential(nn.Linear(2, 2), MoE())

    def forward(self, x):
        h = self.emb(x)
        h = h + self.moe(h)
        return squared(self.seq(h))

class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for _ in range(2):
            loss = self.model(torch.ones(3, 2)).sigmoid()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

trainer = Trainer()
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"parts.py": TEXT, "train.py": TEXT + "trainer.fit()\n"}):
        monkeypatch.syspath_prepend(str(tmp_path))
        yield importlib.import_module("parts").trainer.model


def selected(model, *names):
    return set(bp.probe(model, list(names))(torch.ones(3, 2))) - {"return", "of()"}


def test_what_a_report_prints_can_be_pasted(model):
    out = invoked("explain", "train.py")[1]
    lists = [each.split(", ") for each in re.findall(r"parameters get no gradient \((.*)\)", out)]
    names = {name for each in lists for name in each} | set(re.findall(r"'(/fit[^']*/Net[^']*)'", out))
    assert len(names) > 4, out
    assert [name for name in names if not selected(model, name)] == []


PASTED = {
    "trainer.model.moe.gate.weight": {"moe.gate.weight"},
    "self.model.moe.gate.bias": {"moe.gate.bias"},
    "model.moe": {"moe"},
    "model.seq.1:index": {"seq.1:index"},
    "model.moe.experts.*.weight": {"moe.experts.0.weight", "moe.experts.1.weight"},
    "/Net:h": {"h#0", "h#1"},
    "/fit/Net:h#0": {"h#0"},
    "/fit/Net/MoE#1:logits": {"moe:logits", "seq.1:logits"},
    "/MoE:index": {"moe:index", "seq.1:index"},
    "/fit/Net/squared:k": {"/squared:k"},
    "/fit/Net/MoE": {"moe", "seq.1"},
    "/squared:k": {"/squared:k"},
    "moe.gate.weight": {"moe.gate.weight"},
    "re:moe\\.gate\\.weight": {"moe.gate.weight"},
}


@pytest.mark.parametrize("name", PASTED)
def test_a_name_of_a_script_in_a_probe_of_the_model(model, name):
    assert selected(model, name) == PASTED[name]
    with bp.probe(model, name) as rec:
        model(torch.ones(3, 2)).backward()
    assert set(rec) - {"return", "backward()"} == PASTED[name]


def test_what_a_script_s_name_leaves_out(model):
    all_but = selected(model, "**", "!trainer.model.moe.gate.weight")
    assert selected(model, "**") - all_but == {"moe.gate.weight"}


def test_names_that_are_not_the_model_s_are_refused(model):
    for name in ("trainer.model.nothing.weight", "/fit:loss", "other.thing"):
        with pytest.raises(bp.NothingMatched, match="matches nothing in Net"):
            selected(model, name)


def test_a_name_of_the_model_is_not_cut_short():
    """The path ``h.weight`` is not that of the parameter ``weight``."""

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.h = nn.Parameter(torch.ones(2)), nn.Linear(2, 2)

        def forward(self, x):
            return (self.h(x) * self.weight).sum()

    assert selected(Named(), "h.weight") == {"h.weight"}
    assert selected(Named(), "net.weight") == {"weight"}
