"""``bp.explain`` on a recording of several outputs: which of them reaches what, and why the others do not."""

import pytest
import torch

import backprobe as bp
from goldens import golden
from two_tasks import KEYS, heads


def f(x, w):
    u = x * w
    d = u.detach()
    main = (u * 2).sum()
    aux = (d * w).sum()
    idle = u * 3
    return {"main": main, "aux": aux}


@pytest.fixture
def rec():
    return bp.probe(f, of=["main", "aux"])(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))


def test_which_output_reaches_what(rec):
    report = bp.explain(rec)
    assert report.ok
    golden("explain", report)
    assert "d = u.detach()" not in report.notes[2]


def test_why_an_output_does_not_reach_a_value(rec):
    report = bp.explain(rec, "x")
    golden("explain", report)
    (finding,) = report.findings
    assert (finding.kind, finding.chain, finding.facts[-1]) == ("detach", ("x", "u", "d"), "this is about aux")
    assert finding.source.text.strip() == "d = u.detach()"
    assert report.notes == ()


def test_a_value_that_all_or_none_reach(rec):
    golden("explain", bp.explain(rec, "w"))
    idle = bp.explain(rec, "idle")
    assert [(one.kind, one.name) for one in idle] == [("unused", "idle"), ("unused", "idle")]
    golden("explain", idle)
    assert [finding.facts[-1] for finding in idle.findings] == ["this is about main", "this is about aux"]
    (detached,) = bp.explain(rec, "d").findings  # the same for both, so it is said once
    assert not detached.facts or "about" not in detached.facts[-1]


def test_a_transformer_with_two_heads():
    model, batch = heads()
    notes = bp.explain(bp.probe(model, ["**.weight", "embed"], of=KEYS)(*batch)).notes
    golden("explain", notes)


def test_nan_of_one_output():
    x = torch.tensor([0.0, 1.0])
    rec = bp.probe(lambda x: {"a": x.sqrt().sum(), "b": (x * x).sum()}, of=["b", "a"], nonfinite=True)(x)
    report = bp.explain(rec)
    assert [(one.kind, one.name) for one in report] == [("born_backward", "sqrt()"), ("propagated", "x")]
    golden("explain", report)
    assert {finding.facts[-1] for finding in report.findings} == {"this is about a"}
    finite = bp.explain(bp.probe(lambda x: {"a": x.sum(), "b": (x * x).sum()}, of=["a", "b"], nonfinite=True)(x))
    assert finite.ok


def test_nan_of_a_gradient_that_the_program_takes_hangs_beneath_its_birth():
    x, mask = torch.tensor([0.0, 4.0], requires_grad=True), torch.tensor([0.0, 1.0])
    with bp.probe(nonfinite=True) as rec:
        distances = x.sqrt()
        energy = (distances * mask).sum()
        (force,) = torch.autograd.grad(energy, x, create_graph=True)
        loss = force.square().sum()
        loss.backward()
    report = bp.explain(rec)
    (root,) = report.of_kind("born_backward")
    (taken,) = report.of_kind("born")
    assert (root.name, root.cause, taken.name, taken.cause) == ("distances", "", "force", root.headline)
    assert [one for one in report if not one.cause] == [root]
