"""``bp.explain`` on a recording of several outputs: which of them reaches what, and why the others do not."""

import pytest
import torch

import backprobe as bp
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
    assert report.heading == "5 of 7 values with a gradient; 1 with a history but no gradient"
    assert report.notes[:2] == ("every output reaches: w", "main alone reaches: x, u")
    assert "d = u.detach()" not in report.notes[2]
    assert "no gradient flows back along `u.detach()`" in report.notes[2]
    assert report.notes[3] == "computed, and not used for an output: idle"


def test_why_an_output_does_not_reach_a_value(rec):
    report = bp.explain(rec, "x")
    assert report.heading == "'x' has a gradient of main, and none of aux"
    (finding,) = report.findings
    assert (finding.kind, finding.chain, finding.facts[-1]) == ("detach", ("x", "u", "d"), "this is about aux")
    assert finding.source.text.strip() == "d = u.detach()"
    assert report.notes == ()


def test_a_value_that_all_or_none_reach(rec):
    assert bp.explain(rec, "w").heading == "'w' has a gradient of every output: main and aux"
    idle = bp.explain(rec, "idle")
    assert idle.heading == "'idle' has no gradient of any output: main and aux"
    assert [finding.facts[-1] for finding in idle.findings] == ["this is about main", "this is about aux"]
    (detached,) = bp.explain(rec, "d").findings  # the same for both, so it is said once
    assert not detached.facts or "about" not in detached.facts[-1]


def test_a_transformer_with_two_heads():
    model, batch = heads()
    notes = bp.explain(bp.probe(model, ["**.weight", "embed"], of=KEYS)(*batch)).notes
    assert notes[0].startswith("every output reaches: trunk.layers.{0,1}.self_attn.out_proj.weight")
    assert notes[1:4] == (
        "tagging and scoring, but not penalty, reach: embed.weight, embed", "tagging alone reaches: tag.weight",
        "scoring alone reaches: score.weight",
    )  # fmt: skip


def test_nan_of_one_output():
    x = torch.tensor([0.0, 1.0])
    rec = bp.probe(lambda x: {"a": x.sqrt().sum(), "b": (x * x).sum()}, of=["b", "a"], nonfinite=True)(x)
    report = bp.explain(rec)
    assert report.heading.startswith("NaN or Inf begins at 1 place, first at 'sqrt()'")
    assert {finding.facts[-1] for finding in report.findings} == {"this is about a"}
    finite = bp.explain(bp.probe(lambda x: {"a": x.sum(), "b": (x * x).sum()}, of=["a", "b"], nonfinite=True)(x))
    assert finite.ok
