"""Ports without any ``rename=``: exact ones do not differ, and of one with a planted fault the first value is named."""

import pytest
from ports import PORTS

import backprobe as bp
from backprobe.record.graph import Graph

STATISTICS = ("mean", "var", "moving_mean", "moving_variance")
"""Buffers of batch norms, which recordings of PyTorch do not have."""


def without_partner(report, *recordings):
    """The parameters of either recording that have no partner."""
    found = []
    for only, recording in zip((report.only_a, report.only_b), recordings, strict=True):
        graph = Graph.of(recording.record)
        found += [name for name in only if graph.positions[name] in graph.parameters]
    return [name for name in found if name.rpartition(".")[2] not in STATISTICS]


@pytest.mark.parametrize("name", PORTS)
def test_an_exact_port_does_not_differ(name):
    port = PORTS[name]
    a, b = port.record(False)
    report = bp.diff(a, b)
    assert report.heading.startswith("no difference") and not report.findings, str(report)
    assert without_partner(report, a, b) == list(port.alone)
    assert report.ok is (True if port.is_whole else None), str(report)


@pytest.mark.parametrize("name", PORTS)
def test_a_planted_fault_is_named_first(name):
    port = PORTS[name]
    report = bp.diff(*port.record(True))
    assert report.first is not None, str(report)
    assert report.first.name in port.first, str(report)
