"""Ports without any ``rename=``: exact ones do not differ, and of one with a planted fault the first value is named."""

import pytest
from ports import PORTS

import backprobe as bp
from backprobe.record.graph import Graph
from sampled import sampled

STATISTICS = ("mean", "var", "moving_mean", "moving_variance")
"""Buffers of batch norms, which recordings of PyTorch do not have."""

QUICK = (
    "equinox-mlp",
    "keras-mlp",
    "keras-cnn",
    "keras-batch-norm",
    "keras-attention",
    "linen-cnn",
    "linen-batch-norm",
    "nnx-mlp",
    "nnx-packed",
)
"""The others take seconds to compile, or are as these."""


def without_partner(report, *recordings):
    """The parameters of either recording that have no partner."""
    found = []
    for only, recording in zip((report.only_a, report.only_b), recordings, strict=True):
        graph = Graph.of(recording.record)
        found += [name for name in only if graph.positions[name] in graph.parameters]
    return [name for name in found if name.rpartition(".")[2] not in STATISTICS]


@pytest.mark.parametrize("name", sampled(PORTS, *QUICK))
def test_an_exact_port_does_not_differ(name):
    port = PORTS[name]
    a, b = port.record(False)
    report = bp.diff(a, b)
    assert report.heading.startswith("no difference") and not report.findings, str(report)
    assert without_partner(report, a, b) == list(port.alone)
    assert (report.ok, report.complete) == (True, port.is_whole), str(report)


@pytest.mark.parametrize("name", ["linen-attention", "linen-gru", "keras-gru", "keras-upsampling", "keras-flatten"])
def test_the_reference_may_be_the_second(name):
    report = bp.diff(*reversed(PORTS[name].record(False)))
    assert report.heading.startswith("no difference") and not report.findings, str(report)


@pytest.mark.parametrize("name", sampled(PORTS, *QUICK))
def test_a_planted_fault_is_named_first(name):
    port = PORTS[name]
    report = bp.diff(*port.record(True))
    assert report.first is not None, str(report)
    assert report.first.name in port.first, str(report)


def test_a_layer_with_its_activation_inside_is_not_the_one_without():
    report = bp.diff(*PORTS["keras-mlp"].record(False))
    assert "linear1" in report.only_a and "dense" in report.only_b
    assert (
        "not one value, as all that is computed from them agrees: 'linear1' and 'dense', 'linear2' and 'dense_1'"
        in report.notes
    )


def test_a_finding_says_which_part_of_a_parameter_it_is_about():
    found = bp.diff(*PORTS["nnx-packed"].record(True)).first
    assert (found.name, found.other) in {("attn.in_proj_weight", f"attn.{name}.kernel") for name in ("query", "key")}
    assert found.matched == "by path" and any(
        fact.startswith("matched by path: part ") and fact.endswith(" of 3 of 'attn.in_proj_weight'")
        for fact in found.facts
    )
