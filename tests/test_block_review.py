"""What readers of the block form found wrong, each as they wrote it."""

import sys
from unittest.mock import Mock

import pytest
import torch

import backprobe as bp
from backprobe.trace import Trace


def scalar(number):
    return torch.tensor(number, requires_grad=True)


def test_only_a_multiple_by_a_number_is_a_scale():
    a, b = scalar(3.0), scalar(2.0)
    with bp.probe() as rec:
        u, v = a * 1, b * 1
        r = u / v
        r.backward()
    assert rec.notes == ()
    with bp.probe() as rec:
        u = a * 1
        r = u * u
        r.backward(retain_graph=True)
        r.backward()
    assert rec.notes == ()
    with bp.probe() as rec:
        loss = a * a
        (loss * 4).backward(retain_graph=True)
        (loss * 4).backward()
    assert rec.notes == ("loss: backward() ran from 4 × this, and all gradients are of that",)
    with bp.probe() as rec:
        loss = a * a
        (loss / 4).backward()
    assert rec.notes == ("loss: backward() ran from 0.25 × this, and all gradients are of that",)


def test_objects_of_the_users_are_asked_nothing():
    x = scalar(2.0)
    stub = Mock(side_effect=lambda z: z * 2)
    walked = []

    class Walked(list):
        def __iter__(self):
            walked.append(1)
            return super().__iter__()

    with bp.probe() as rec:
        u = stub(x)
        held = Walked([u])
        u.backward()
    assert rec["u"].grad == 1
    assert rec.notes == ()
    assert not stub._mock_children
    assert walked == []
    assert "held.0" in rec["u"].aliases


def test_what_a_list_holds_already_is_not_explained_again_at_each_turn(monkeypatch):
    explained = []
    explain = Trace._explain_one
    monkeypatch.setattr(Trace, "_explain_one", lambda *given: explained.append(1) or explain(*given))
    x = scalar(2.0)
    with bp.probe() as rec:
        held = [x]
        for _ in range(30):
            held = held + [held[-1] * 1.01]
        sum(held).backward()
    assert len(explained) <= len(rec)
    assert [read.name for read in rec["held#5.5"].reads] == ["x", "held#1.1", "held#2.2", "held#3.3", "held#4.4"]


def test_objects_that_know_each_other_are_walked_once():
    nodes = [{"v": torch.ones(1)} for _ in range(30)]
    for node in nodes:
        node["others"] = [other for other in nodes if other is not node]
    x = scalar(2.0)
    with bp.probe() as rec:
        here = nodes[0]
        u = x * 2
        u.backward()
    assert rec["here.v"].status == "frozen"
    assert len(rec) < 50


def test_blocks_that_end_in_another_order_than_they_began():
    x = torch.ones(2, requires_grad=True)
    before = sys.gettrace(), sys._getframe().f_trace
    first, second = bp.probe(), bp.probe()
    rec = first.__enter__()
    u = x * 2
    inner = second.__enter__()
    v = u * 3
    first.__exit__(None, None, None)
    w = v * 4
    w.sum().backward()
    second.__exit__(None, None, None)
    assert (sys.gettrace(), sys._getframe().f_trace) == before
    assert "w" in inner
    assert "w" not in rec
    assert rec.notes == ()
    assert inner["w"].grad.tolist() == [1, 1]


def test_leaving_a_block_that_was_never_entered():
    with pytest.raises(bp.BadOption, match="^this probe has no open block"):
        bp.probe().__exit__(None, None, None)


def test_options_that_are_not_for_blocks():
    with pytest.raises(bp.BadOption, match="session is not for blocks"):
        bp.probe(session=3).__enter__()
    with pytest.raises(bp.BadOption) as caught:
        bp.probe(of="loss").__enter__()
    assert "with bp.probe(of=...)" in str(caught.value)


def test_a_block_without_backward_says_so():
    with bp.probe() as rec:
        u = torch.ones(1) * 2
    assert "no gradients: nothing that was recorded was differentiated" in str(rec)
    assert repr(rec) == "<backprobe.Recording of nothing: 1 entries, 1 without gradient>"
