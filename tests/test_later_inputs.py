"""What flows into the values of a block is looked for when somebody asks, and the graph is held no longer than that.

The graph leads to the parameters of a model: where nothing holds it, a model that is let go takes these along.
"""

import threading
import weakref

import pytest
import torch
from torch import nn

import backprobe as bp


def backward(loss, **options):
    loss.backward(**options)


def stepped(model, *selected, run=backward):
    with bp.probe(model, selected or "**") as rec:
        run(model(torch.ones(1, 2)).sum())
    return rec


def of_a_model_let_go(run=backward):
    """The recording of its first layer, and a weak reference to the weights of that."""
    model = nn.Sequential(nn.Linear(2, 2))
    rec = stepped(model, "0", run=run)
    return rec, weakref.ref(model[0].weight)


def flowing(rec):
    return {name: [edge.name for edge in rec[name].inputs] for name in rec}


@pytest.fixture
def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


def test_they_are_those_that_are_found_at_once(layers):
    found = flowing(stepped(layers))
    assert found["1"] == ["0"] and set(found["2"]) == {"1", "2.weight", "2.bias"}
    assert found == flowing(stepped(layers, run=lambda loss: loss.backward(retain_graph=True)))


def test_what_is_read_holds_the_graph_no_longer():
    rec, weight = of_a_model_let_go()
    assert weight() is not None
    assert flowing(rec)["0"] == [] and weight() is None


def bias_of(loss):
    return loss.grad_fn.next_functions[0][0].next_functions[0][0].variable


RUNS = {
    "none": lambda loss: None,
    "kept": lambda loss: loss.backward(retain_graph=True),
    "of its bias": lambda loss: torch.autograd.grad(loss, [bias_of(loss)]),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_graph_that_may_not_be_freed_is_not_held(run):
    rec, weight = of_a_model_let_go(run)
    assert weight() is None and len(rec)


def test_the_next_block_of_a_thread_lets_the_graph_go(layers):
    rec, weight = of_a_model_let_go()
    stepped(layers)
    assert weight() is None and len(rec)


def test_other_threads_keep_their_own(layers):
    rec, weight = of_a_model_let_go()
    thread = threading.Thread(target=lambda: stepped(layers))
    thread.start()
    thread.join()
    assert weight() is not None and flowing(rec)["0"] == []
