"""``bp.explain`` of a loss and a tensor without a recording: what the graph alone tells."""

import torch
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import kinds, leaf
from custom import custom
from goldens import golden


def facts_of(loss, tensor):
    report = bp.explain(loss, tensor)
    return report.heading, kinds(report)


def test_a_tensor_that_is_no_leaf():
    weight = torch.ones(3, requires_grad=True) * 0.1
    report = bp.explain((weight * 2).sum(), weight)
    golden("explain", report)
    assert kinds(report) == ["not_retained"]
    weight.retain_grad()
    assert bp.explain((weight * 2).sum(), weight).ok


SHARED = leaf(1.0)


def test_leaves_are_called_as_the_caller_calls_them():
    x = leaf(1.0)
    u, v = x.exp(), SHARED.exp()
    golden("explain", bp.explain(u * 2, u))
    golden("explain", bp.explain(v * 2, v))


def test_a_view_taken_again():
    b = leaf(1.0, 2.0).exp()
    t = b[0]
    report = bp.explain(b[0] * 2, t)
    golden("explain", report)
    assert kinds(report) == ["made_again"]
    assert facts_of(b[1] * 2, t)[1] == ["unused"]


def test_another_leaf_in_the_same_memory():
    x = leaf(1.0, 2.0)
    parameter = torch.nn.Parameter(x)
    (finding,) = bp.explain((parameter * 2).sum(), x).findings
    assert finding.kind == "shared"
    golden("explain", finding)


def test_a_view_that_is_not_used_is_cut_off_by_nothing():
    w = leaf(1.0, 2.0)
    view = w.view(2, 1)
    assert kinds(bp.explain((w * 2).sum(), view)) == ["unused"]


def test_a_detached_tensor_was_made_so_or_cut_off():
    w = leaf(1.0, 2.0)
    d = w.detach()
    (finding,) = bp.explain((d * 2).sum() + w.sum(), d).findings
    assert (finding.kind, finding.name) == ("frozen", "d")
    golden("explain", finding)


def test_what_a_reentrant_checkpoint_leads_to_is_unknown():
    w, part = leaf(1.0, 2.0, 3.0), torch.nn.Linear(3, 3)
    loss = checkpoint(lambda given: part(given).sum(), w, use_reentrant=True)
    weight = part.weight
    report = bp.explain(loss, weight)
    assert kinds(report) == ["unknown"]
    golden("explain", report)
    loss.backward()
    assert weight.grad is not None


def test_a_backward_in_python_may_give_none():
    Silent = custom("Silent", lambda x: x * 2, lambda gradient, x: None)

    w = leaf(1.0, 2.0)
    loss = Silent.apply(w).sum()
    report = bp.explain(loss, w)
    assert report.ok
    golden("explain", report)


def test_values_that_are_not_reached():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    u = x * 3
    assert facts_of((x * w).sum(), u)[1] == ["unused"]
    assert facts_of(w.sum(), x)[1] == ["unused"]
    assert facts_of(w.sum(), torch.ones(2))[1] == ["frozen"]
    assert facts_of(w.sum(), torch.tensor([1, 2]))[1] == ["not_float"]
    with torch.inference_mode():
        q = torch.ones(2)
    assert facts_of(w.sum(), q)[1] == ["inference"]


def test_a_loss_that_backward_cannot_run_from():
    x = leaf(1.0, 2.0)
    assert facts_of(x * 2, x)[1] == ["not_scalar"]
    assert facts_of(x.detach().sum(), x)[1] == ["no_history", "unused"]
    loss = x.detach().sum()
    loss.requires_grad = True
    assert facts_of(loss, x)[1] == ["made_leaf", "unused"]
    v = x.exp()
    loss = (v * x).sum()
    v.add_(1)
    assert facts_of(loss, x)[1] == ["in_place"]
    loss = (x * x).sum()
    loss.backward()
    report = bp.explain(loss, x)
    assert report.ok  # x.grad is there: that the graph is gone is no cause of anything missing
    golden("explain", report)


def test_looking_at_a_graph_runs_nothing_of_it():
    ran = []

    def part(value):
        ran.append(1)
        return value.exp() * value

    x = leaf(1.0, 2.0)
    loss = checkpoint(part, x, use_reentrant=False).sum()
    assert len(ran) == 1
    assert bp.explain(loss, x).ok
    assert len(ran) == 1
