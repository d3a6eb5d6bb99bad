"""The index of a record: positions, edges both ways, order, and the boxes of scopes."""

import gc
import weakref

import torch

import backprobe as bp
from backprobe.record.graph import Graph, inverted, reached


def square(v):
    w = v * v
    return w


def f(x, y):
    u = x * y
    z = square(u)
    return z + x


def indexed():
    rec = bp.probe(f)(torch.tensor(2.0), torch.tensor(3.0))
    return rec, Graph.of(rec.record)


def test_a_record_has_one_index():
    rec, graph = indexed()
    assert Graph.of(rec.record) is graph
    assert [graph.positions[name] for name in rec] == list(range(len(rec)))


def test_inputs_and_consumers_are_each_other_turned_round():
    rec, graph = indexed()
    names = list(rec)
    edges = {(names[source], names[at]) for at, sources in enumerate(graph.inputs) for source in sources}
    assert edges == {(names[at], names[one]) for at, consumers in enumerate(graph.consumers) for one in consumers}
    assert edges == {(edge.name, entry.name) for entry in rec.values() for edge in entry.inputs}


def test_descendants_hold_the_value_itself():
    rec, graph = indexed()
    u, w = (graph.positions[rec[name].name] for name in ("u", "/square:w"))
    assert w in graph.descendants(u)
    assert u in graph.descendants(u)
    assert u not in graph.descendants(w)


def test_each_value_comes_after_what_flows_into_it():
    _, graph = indexed()
    at_which = {at: nth for nth, at in enumerate(graph.order)}
    assert sorted(graph.order) == list(range(len(graph.entries)))
    assert all(at_which[flow.source] < at_which[flow.target] for flow in graph.flows)


def test_a_called_function_is_a_box():
    rec, graph = indexed()
    assert graph.box_of[graph.positions[rec["/square:w"].name]] in graph.boxes
    assert graph.box_of[graph.positions["u"]] is None


def test_what_is_reached_may_lie_on_a_circle():
    assert reached([0], {0: [1], 1: [0, 2], 2: []}.__getitem__) == {0, 1, 2}
    assert inverted([[1], [0], [0, 1]]) == [[1, 2], [0, 2], []]


def test_the_index_keeps_no_recording_alive():
    rec, _ = indexed()
    record = weakref.ref(rec.record)
    gc.disable()
    try:
        del rec, _
        assert record() is None
    finally:
        gc.enable()
