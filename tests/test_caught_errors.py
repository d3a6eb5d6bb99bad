"""Errors of backward that the program catches: the recording is not fine, and says what was raised, and where."""

import pytest
import torch
from torch import nn

import backprobe as bp
from goldens import golden


def said(rec):
    report = bp.explain(rec)
    return report.ok, [(one.headline.partition(":")[0], one.source.text) for one in report.of_kind("raised")], report


def test_a_loss_without_a_history():
    w = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        loss = (w.detach() * 2).sum()
        try:
            loss.backward()
        except RuntimeError:
            pass
    ok, raised, report = said(rec)
    assert (ok, raised) == (False, [("the program raised RuntimeError", "loss.backward()")])
    assert "and caught it" in str(report)
    assert "`w.detach()` cuts 'loss' off from 'w'" in str(report)
    golden("explain", report)


def test_a_value_written_in_place_and_gradients_that_came_before_it():
    w = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        y = (w * 2).exp()
        loss = y.sum()
        y.mul_(2)
        try:
            loss.backward()
        except RuntimeError:
            pass
    ok, raised, report = said(rec)
    assert (ok, raised) == (False, [("the program raised RuntimeError", "loss.backward()")])
    assert "written: 'y#1'" in str(report)


def test_a_second_backward_in_a_function_in_each_turn_of_a_loop_is_one_finding():
    w = torch.ones(2, requires_grad=True)

    def step():
        loss = (w * 2).exp().sum()
        loss.backward()
        loss.backward()

    with bp.probe() as rec:
        for _ in range(3):
            try:
                step()
            except RuntimeError:
                pass
    ok, raised, report = said(rec)
    assert (ok, raised) == (False, [("the program raised RuntimeError", "loss.backward()")])
    golden("explain", report)


def test_autograd_grad_of_what_was_not_used():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        loss = (a * 2).sum()
        loss.backward(retain_graph=True)
        try:
            torch.autograd.grad(loss, [a, b])
        except RuntimeError:
            slopes = None
    assert said(rec)[:2] == (False, [("the program raised RuntimeError", "torch.autograd.grad(loss, [a, b])")]), slopes


class Refusing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no gradient today")


def test_around_a_model_the_line_of_a_pass_that_was_cut_short():
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    with bp.probe(net) as rec:
        loss = net(Refusing.apply(torch.ones(1, 2, requires_grad=True))).sum()
        try:
            loss.backward()
        except ValueError:
            pass
    report = bp.explain(rec)
    assert not report.ok
    found = report.of_kind("raised")[0]
    assert found.source.text == "loss.backward()"
    golden("explain", found)


def test_an_error_that_is_not_caught_is_one_finding_with_one_note():
    w = torch.ones(2, requires_grad=True)

    def step():
        loss = (w * 2).exp().sum()
        loss.backward()
        loss.backward()

    with pytest.raises(RuntimeError) as error, bp.probe() as rec:
        step()
    notes = error.value.__notes__
    assert [note.count("an earlier backward() has used") for note in notes] == [0, 1]
    ok, raised, report = said(rec)
    assert (ok, len(raised)) == (False, 1)
    assert "and caught it" not in str(report)


def test_an_error_of_the_program_beside_backward_that_it_catches_is_not_mentioned():
    w = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        try:
            missing = {}["missing"]
        except KeyError:
            missing = 2.0
        loss = (w * missing).sum()
        loss.backward()
    assert said(rec)[:2] == (True, [])


def test_a_long_error_is_quoted_whole_beneath_its_beginning():
    words = "the batch has " + ", ".join(f"a column that is called {at}" for at in range(20))
    with pytest.raises(ValueError), bp.probe() as rec:
        scaled = torch.ones(2, requires_grad=True) * 2
        raise ValueError(words)
    (finding,) = bp.explain(rec, experiments=False).of_kind("raised")
    assert finding.headline.endswith("…") and finding.facts[0] == f"ValueError: {words}"


def test_a_block_that_raises_before_there_are_values_counts_none():
    with pytest.raises(ValueError), bp.probe(backend="torch") as rec:
        raise ValueError("no batch")
    assert bp.explain(rec, experiments=False).heading == "no value was seen that could have a gradient"
