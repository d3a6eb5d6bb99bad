"""The uses that a line makes of a value, read from its text."""

import gc
import warnings
import weakref

import pytest
import torch

import backprobe as bp
from backprobe.cuts.cutting_operations import uses
from backprobe.cuts.lines import line_of
from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.parsed import has_part
from backprobe.explain.nonfinite.sources import Sources
from backprobe.record.graph import Graph


def _divided(statement):
    text, *below = statement.splitlines()
    return text, "", (), tuple(below)


@pytest.mark.parametrize(
    ("text", "spelled", "found"),
    [
        ("u.detach()", "u", ["detach"]),
        ("float(u)", "u", ["number"]),
        ("u.float()", "u", [""]),
        ("u.to(torch.long)", "u", ["integer"]),
        ("u.to(torch.float64)", "u", [""]),
        ("tf.cast(u, tf.int32)", "u", ["integer"]),
        ("u is None", "u", ["shape"]),
        ("u > v", "v", ["comparison"]),
        ("pair[0].detach() + pair[1]", "pair.1", [""]),
        ("pair[0].detach() + pair[1]", "pair.0", ["detach"]),
        ("self.scale.item()", "self.scale", ["number"]),
        ("helper(u) * 2", "u", []),
        ("[v.item() for v in u]", "u", ["number"]),
        ("[v for v in u]", "u", [""]),
        ("return u.detach()", "u", ["detach"]),
        ("while (v := u.detach()).sum() > 3:", "u", ["detach"]),
        ("u.detach().cpu().item()", "u", ["number"]),
        ("u.detach().cpu().numpy()", "u", ["numpy"]),
        ("(u.data > 0).float()", "u", ["comparison"]),
        ("u.detach().sum()", "u", ["detach"]),
        ("torch.as_tensor(u)", "u", [""]),
        ("torch.as_tensor((u, v))", "u", ["copied"]),
        ("torch.asarray(parts)", "parts.0", ["copied"]),
    ],
)
def test_what_a_text_does_with_a_name(text, spelled, found):
    assert [use.kind for use in uses(text, spelled, ("helper",))] == found


def test_the_head_of_a_statement_that_has_a_body_is_all_of_its_lines():
    text = "with torch.set_grad_enabled(\n    float(u) > 0\n):  # on"
    assert [use.kind for use in uses(text, "u")] == ["number"]
    assert line_of(bp.Source("a.py", 3, *_divided(text)), "float(u)").line == 4
    assert [use.kind for use in uses("elif u.item() > 3:", "u")] == ["number"]


@pytest.mark.parametrize(
    ("text", "spelled", "kind"),
    [
        ("[float(b) * a for a, b in zip(u, v)]", "u", ""),
        ("[float(b) * a for a, b in zip(u, v)]", "v", "number"),
        ("[b * a.item() for i, (a, b) in enumerate(zip(u, v))]", "u", "number"),
        ("math.exp(u) * v", "u", "number"),
        ("torch.sort(u, 0)[1]", "u", "index"),
        ("torch.sort(u, 0)[0]", "u", ""),
        ("u.topk(2).indices", "u", "index"),
        ("torch.round(u).detach()", "u", "detach"),
    ],
)
def test_what_functions_of_libraries_and_of_python_do(text, spelled, kind):
    assert [use.kind for use in uses(text, spelled)] == [kind]


def test_a_text_that_is_no_python_tells_nothing():
    assert uses("u = (", "u") is None
    assert uses("x * 2", "u") is None
    assert not has_part("u = (", "u[0]")


def test_python_warns_of_nothing_while_texts_are_read():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert uses('u.detach() if "\\d" else u', "u") is not None


def test_what_is_found_in_a_record_is_found_once_and_goes_with_it():
    rec = bp.probe(lambda x: x.detach() * x)(torch.tensor(2.0))
    flow = Dataflow.of(rec.record)
    assert Dataflow.of(rec.record) is flow and Sources.of(rec.record) is Sources.of(rec.record)
    assert Dataflow.of(rec.record, has_run=False) is not flow
    assert flow.graph is Graph.of(rec.record)
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(rec.record)
        del rec, flow
        assert gone() is None
    finally:
        gc.enable()
