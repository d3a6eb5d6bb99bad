"""Backward that begins or ends at edges of the graph, which ``torch.autograd.graph.get_gradient_edge`` gives."""

import pytest
import torch
from torch.autograd.graph import get_gradient_edge as edge_of

import backprobe as bp

pytestmark = pytest.mark.usefixtures("leaves_nothing")


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def grads(entry):
    return {key: gradient.tolist() for key, gradient in entry.grads.items()}


def test_two_calls_of_grad_from_edges_are_two_outputs(x):
    with bp.probe() as rec:
        doubled = x * 2
        tripled = x * 3
        edges = edge_of(doubled), edge_of(tripled)
        first = torch.autograd.grad(edges[0], x, torch.ones(2), retain_graph=True)
        second = torch.autograd.grad([edges[1]], [x], [torch.ones(2)], retain_graph=True)
    assert [first[0].tolist(), second[0].tolist()] == [[2, 2], [3, 3]]
    assert grads(rec["x"]) == {"doubled": [2, 2], "tripled": [3, 3]}
    assert rec.total()["x"].grad.tolist() == [5, 5]
    assert "gradients are of doubled, tripled" in str(rec)


def test_edges_of_values_without_a_name(x):
    with bp.probe() as rec:
        edges = [edge_of((x * factor).sum()) for factor in (2, 3)]
        for one in edges:
            torch.autograd.grad(one, x)
    assert grads(rec["x"]) == {"grad()": [2, 2], "grad(), pass 2": [3, 3]}
    assert rec.total()["x"].grad.tolist() == [5, 5]


def test_the_same_edge_with_the_same_cotangent_is_one_output(x):
    with bp.probe() as rec:
        doubled = x * 2
        edge = edge_of(doubled)
        torch.autograd.grad(edge, x, torch.ones(2), retain_graph=True)
        torch.autograd.grad(edge, doubled, torch.ones(2), retain_graph=True)
    assert rec["x"].grad.tolist() == [2, 2] and rec["doubled"].grad.tolist() == [1, 1]


def test_the_same_edge_with_another_cotangent_is_another_output(x):
    with bp.probe() as rec:
        edge = edge_of((x * 2).sum())
        torch.autograd.grad(edge, x, torch.tensor(1.0), retain_graph=True)
        torch.autograd.grad(edge, x, torch.tensor(5.0))
    assert grads(rec["x"]) == {"grad()": [2, 2], "grad(), pass 2": [10, 10]}


def test_backward_from_an_edge(x):
    with bp.probe() as rec:
        doubled = x * 2
        torch.autograd.backward([edge_of(doubled)], [torch.ones(2)])
    assert x.grad.tolist() == rec["x"].grad.tolist() == [2, 2]
    assert "gradients are of doubled" in str(rec) and bp.explain(rec).ok


def test_backward_from_an_edge_of_no_name_says_no_untrue_word(x):
    with bp.probe() as rec:
        torch.autograd.backward([edge_of((x * 2).sum())])
    assert rec["x"].grad.tolist() == [2, 2]
    assert "gradients are of what backward() began at, which has no name" in str(rec)


def test_an_edge_and_a_tensor_together(x):
    with bp.probe() as rec:
        doubled = x * 2
        loss = (x * 3).sum()
        torch.autograd.backward([edge_of(doubled), loss], [torch.ones(2), None])
    assert x.grad.tolist() == rec["x"].grad.tolist() == [5, 5]
    assert rec["doubled"].grad.tolist() == [1, 1] and rec["loss"].grad.item() == 1


def test_edges_as_inputs(x):
    with bp.probe() as rec:
        doubled = x * 2
        loss = doubled.sum()
        (gradient,) = torch.autograd.grad(loss, [edge_of(doubled)])
    assert rec["doubled"].grad.tolist() == gradient.tolist() == [1, 1]
    assert rec["x"].status == "not_connected" and "its inputs alone" in rec["x"].reason
    assert "gradient from autograd.grad" in rec["gradient"].reason
    assert "asked for, nor on the way to these: x" in str(bp.explain(rec))


def test_the_edge_of_a_leaf(x):
    with bp.probe() as rec:
        loss = (x * 2).sum()
        loss.backward(inputs=[edge_of(x)])
    assert x.grad.tolist() == rec["x"].grad.tolist() == [2, 2]


def test_a_result_that_is_detached_in_place_after_backward(x):
    with bp.probe() as rec:
        loss = (x * 2).sum()
        loss.backward()
        loss.detach_()
    assert rec["loss#0"].grad.item() == 1 and bp.explain(rec).ok
