"""A list or dict that the program changes: what is said of its items is said of those that it holds by then."""

import pytest
import torch

import backprobe as bp
from changed_containers import SAID
from torch_framework import TORCH


@pytest.mark.parametrize("program", SAID, ids=lambda program: program.__name__)
def test_items_are_known_by_what_they_are(program):
    rec = bp.probe(program(TORCH.ops))(*(torch.ones(2, requires_grad=True) for _ in range(3)))
    assert [_kinds(rec, name) for name in "wv"] == [*SAID[program]]


def _read(rec, name):
    # The items that an entry is computed from, and where they were in the list by then.
    return {[*rec][read.at]: read.spelled for read in rec[name].reads if "parts" in read.spelled}


def _kinds(rec, name):
    return [finding.kind for finding in bp.explain(rec, name, experiments=False).findings]


def test_the_names_of_items_stay_those_of_the_line_that_bound_them():
    def program(x, w, v):
        parts = [w * 1, v * 2]
        parts.reverse()
        parts.append(x * 3)
        return (parts[0] * parts[2]).sum()

    rec = bp.probe(program)(*(torch.ones(2) for _ in range(3)))
    assert [*rec] == ["x", "w", "v", "parts.0", "parts.1", "return"]
    assert _read(rec, "return") == {"parts.1": "parts.0", "parts.0": "parts.1"}


def test_a_line_after_a_change_uses_no_item_that_is_gone():
    x, w, v = (torch.ones(2, requires_grad=True) for _ in range(3))
    with bp.probe() as rec:
        parts = [w * 1, v * 2]
        del parts[0]
        loss = (parts[0] * x).sum()
        loss.backward()
    (finding,) = bp.explain(rec, "w", experiments=False).findings
    assert finding.headline == (
        "`del parts[0]` uses 'parts', and nothing that was recorded leads on from 'parts.0' in it to 'loss'"
    )
    assert bp.explain(rec, "v").ok


def test_a_write_reaches_the_items_of_a_changed_list():
    def program(x, w, v):
        parts = [w * 1, v * 2]
        parts.reverse()
        parts[0].mul_(2)
        return (parts[0] * x).sum()

    rec = bp.probe(program)(*(torch.ones(2) for _ in range(3)))
    assert _read(rec, "return") == {"parts#0.0": "parts.1", "parts#1.1": "parts.0"}


def test_a_list_lives_no_longer_than_its_name():
    freed = []

    class Noting(list):
        def __del__(self):
            freed.append(True)

    def program(x):
        parts = Noting([x * 1])
        parts.append(x * 2)
        total = parts[0] + parts[1]
        parts = total
        assert freed
        return parts.sum()

    bp.probe(program)(torch.ones(2))
