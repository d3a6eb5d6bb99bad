"""Hooks of a leaf that PyTorch takes off: up to 2.9 it does, when a saved leaf that hooks packed is read in Python."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from block_cases import same
from lost_hooks import Square, square, unheard

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def leaf():
    return torch.linspace(1, 2, 4, requires_grad=True)


def assert_true(rec, name, gradient):
    """It is told, and right, where PyTorch keeps hooks; else it is not known, and why."""
    assert unheard(rec, name) or same(rec[name].grad, gradient)


def test_a_leaf_that_a_function_reads():
    w = leaf()
    with bp.probe() as rec:
        u = square(w)
        loss = u.sum()
        loss.backward()
    assert same(w.grad, 2 * w.detach())
    assert_true(rec, "w", w.grad)
    assert same(rec["u"].grad, torch.ones(4))


def test_a_leaf_of_nested_checkpoints():
    def inner(value):
        return value.sin()

    def outer(value):
        return checkpoint(inner, value, use_reentrant=False) * 2

    w = leaf()
    with bp.probe() as rec:
        loss = checkpoint(outer, w, use_reentrant=False).sum()
        loss.backward()
    assert same(w.grad, 2 * w.detach().cos())
    assert_true(rec, "w", w.grad)


def test_the_first_of_two_passes_alone_is_no_gradient():
    """The hooks are taken off in the second pass: what the first brought is not the whole."""
    w = leaf()
    with bp.probe() as rec:
        (w * 3).sum().backward()
        square(w).sum().backward()
    assert same(w.grad, 3 + 2 * w.detach())
    assert_true(rec, "w", w.grad)


def test_hooks_that_were_off_before_the_block():
    w = leaf()
    w.register_hook(lambda grad: None)
    square(w).sum().backward()
    w.grad = None
    with bp.probe() as rec:
        loss = (w * 3).sum()
        loss.backward()
    assert_true(rec, "w", w.grad)


def test_a_leaf_that_nothing_leads_to_is_not_connected():
    w, other = leaf(), leaf()
    with bp.probe() as rec:
        beside = other * 2
        loss = square(w).sum()
        loss.backward()
    assert rec["other"].status == rec["beside"].status == "not_connected"


def test_a_leaf_that_a_backward_gives_nothing_is_not_connected():
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    w, other = leaf(), leaf()
    with bp.probe() as rec:
        loss = Nothing.apply(w, other).sum()
        loss.backward()
    assert rec["other"].status == "not_connected"
    assert "returned None" in rec["other"].reason
    assert same(rec["w"].grad, w.grad)


def test_hooks_of_the_program_are_called_as_often_as_without():
    def called(probed):
        heard, w = [], leaf()
        w.register_hook(lambda grad: heard.append(grad.clone()))
        if probed:
            with bp.probe():
                (w * 3).sum().backward()
                square(w).sum().backward()
        else:
            (w * 3).sum().backward()
            square(w).sum().backward()
        return heard, w.grad

    (bare, expected), (heard, found) = called(False), called(True)
    assert [*map(torch.Tensor.tolist, heard)] == [*map(torch.Tensor.tolist, bare)]
    assert same(found, expected)


def test_explain_does_not_say_that_nothing_leads_to_it():
    w = leaf()
    with bp.probe() as rec:
        loss = square(w).sum()
        loss.backward()
    said = str(bp.explain(rec, "w"))
    assert "no path" not in said
    assert "not_connected" not in said


def test_a_watch_counts_no_parameter_as_untrained(tmp_path):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bp.watch(model, tmp_path / "run", optimizer=optimizer):
        for _ in range(5):
            with saved_tensors_hooks(lambda one: one.detach().clone(), lambda one: one):
                loss = (torch.ones(2, 4) @ Square.apply(model.weight).T + model.bias).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    run = bp.open_run(tmp_path / "run")
    assert not [alert for alert in run.alerts if "weight" in str(alert)]
    assert run.at(4)["weight"]["grad.rms"] > 0
