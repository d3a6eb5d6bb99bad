"""Hooks on forwards that cut gradients off, in a block around a model: they are named, and others are not."""

import pytest
import torch

import backprobe as bp
from asked import kinds
from goldens import golden


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)

    def forward(self, x):
        h = self.enc(x)
        return self.dec(torch.tanh(h))


kept = {}


def cutting(module, args, output):
    kept["output"] = output.detach()
    return kept["output"]


def cutting_before(module, args):
    return (args[0].detach(),)


def keeping(module, args, output):
    kept["output"] = output.detach()


def recorded(hook, select=None, *, before=False, where="enc", steps=True):
    model = Net()
    part = model.get_submodule(where)
    part.register_forward_pre_hook(hook) if before else part.register_forward_hook(hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bp.probe(model, *([select] if select else [])) as rec:
        out = model(torch.ones(3, 4))
        out.sum().backward()
        if steps:
            optimizer.step()
    return rec


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"hook": cutting}, "def cutting(module, args, output):"),
        ({"hook": cutting, "steps": False}, "def cutting(module, args, output):"),
        ({"hook": cutting, "select": ["enc", "dec"]}, "def cutting(module, args, output):"),
        ({"hook": cutting_before, "before": True, "where": "dec"}, "def cutting_before(module, args):"),
        ({"hook": lambda module, args, output: output.detach()}, "lambda module, args, output: output.detach()"),
    ],
)
def test_a_hook_that_may_cut_is_named_with_its_line(given, line):
    report = bp.explain(recorded(**given))
    assert not report.ok
    found = report.findings[0]
    (fact,) = [one for one in found.facts if one.startswith("what a hook on the forward of a module returns")]
    assert line in fact
    assert f"'{given.get('where', 'enc')}' has " in fact
    golden("explain", found)
    assert "give names to the parts of that line" not in found.remedy
    assert "may not use the value" not in str(report)


def test_the_remedy_cures():
    assert bp.explain(recorded(keeping)).ok


@pytest.mark.parametrize("hook", [keeping, lambda module, args, output: kept.update(output=output)])
def test_a_hook_that_returns_nothing_is_not_named(hook):
    class Cut(Net):
        def forward(self, x):
            h = self.enc(x).detach()
            return self.dec(torch.tanh(h))

    model = Cut()
    model.enc.register_forward_hook(hook)
    with bp.probe(model) as rec:
        model(torch.ones(3, 4)).sum().backward()
    report = bp.explain(rec)
    assert kinds(report) == ["detach"]
    assert "what a hook" not in str(report)


def test_where_no_gradient_is_missing_nothing_is_said_of_hooks():
    rec = recorded(lambda module, args, output: output * 2)
    assert bp.explain(rec).ok
    assert not rec.record.used_at
