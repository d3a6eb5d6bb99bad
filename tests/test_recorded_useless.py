"""Functions and models of PyTorch whose gradients are useless, and healthy ones that look like them."""

import runpy

import pytest
import torch

import backprobe as bp
from recorded_useless import check, paths


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in paths("torch")])
def test_a_recorded_program_is_explained(path):
    check(path)


FACTS = (
    "outer_product",
    "distribution_twice",
    "not_log_probabilities",
    "result_dropped",
    "zero_flat",
    "zero_times_zero",
    "cancels",
)


def of_facts(report):
    """The kinds of useless gradients that are found, with the names and lines."""
    return {(one.kind, one.name, one.source and one.source.line) for one in report.of_kind(*FACTS)}


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in paths("torch")])
def test_health_says_what_explain_says(path):
    torch.manual_seed(0)
    known = runpy.run_path(str(path))
    rec = bp.probe(known["PROBED"], **known.get("OPTIONS", {}))(*known["GIVEN"])
    assert of_facts(bp.health(rec)) == of_facts(bp.explain(rec))
