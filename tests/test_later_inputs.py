"""What flows into the values of a block is looked for when somebody asks, and the graph is held no longer than that."""

import pickle
import threading
import weakref

import pytest
import torch
from torch import nn

import backprobe as bp
from backprobe.backends.torch.later_inputs import LAST, LaterInputs


def stepped(model, *selected):
    with bp.probe(model, selected or "**") as rec:
        model(torch.ones(1, 2)).sum().backward()
    return rec


def flowing(rec):
    return {name: [edge.name for edge in rec[name].inputs] for name in rec}


def waiting():
    """The inputs that the last block of this thread left to be looked for."""
    left = None if LAST.waiting is None else LAST.waiting()
    return None if left is None or left.find is None else left


@pytest.fixture
def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


def test_they_are_those_that_are_found_at_once(layers):
    rec = stepped(layers)
    assert waiting() is not None
    found = flowing(rec)
    assert waiting() is None and found["1"] == ["0"] and set(found["2"]) == {"1", "2.weight", "2.bias"}
    with bp.probe(layers, "**") as rec:
        layers(torch.ones(1, 2)).sum().backward(retain_graph=True)
    assert waiting() is None and flowing(rec) == found


def test_a_graph_that_is_left_is_not_held(layers):
    def left(run):
        with bp.probe(layers, "**") as rec:
            run(layers(torch.ones(1, 2)).sum())
        return waiting() is None and len(rec)

    assert left(lambda loss: loss.backward(retain_graph=True))
    assert left(lambda loss: torch.autograd.grad(loss, [layers[0].weight]))
    assert left(lambda loss: None)
    with bp.probe(layers, "**") as rec:  # of the second loss nothing is freed
        loss, other = layers(torch.ones(1, 2)).sum(), layers(torch.zeros(1, 2)).tanh().sum()
        loss.backward()
    assert waiting() is None and "2" in rec and other.requires_grad


def test_the_next_block_of_a_thread_lets_the_graph_go(layers):
    kept = nn.Sequential(nn.Linear(2, 2))
    weight, first = weakref.ref(kept[0].weight), stepped(kept, "0")
    del kept  # its graph leads to the parameters, which were not selected
    assert weight() is not None
    stepped(layers)
    assert weight() is None and len(first)


def test_other_threads_keep_their_own(layers):
    rec, elsewhere = stepped(layers), []
    thread = threading.Thread(target=lambda: elsewhere.append(stepped(nn.Linear(2, 1))))
    thread.start()
    thread.join()
    assert waiting() is not None and flowing(rec)["1"] == ["0"]
    assert set(flowing(elsewhere[0])["return"]) == {"weight", "bias"}


def test_what_is_sent_elsewhere_holds_no_graph():
    inputs = LaterInputs(1, lambda: [(0,)])
    assert pickle.loads(pickle.dumps(inputs)) == [(0,)] and inputs.find is None
