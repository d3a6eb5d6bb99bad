"""The index of a record: positions, edges both ways, order, and the boxes of scopes."""

import copy
import gc
import pickle
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


# what an operation takes itself


def dashed(function, *args, select=None):
    rec = bp.probe(function, select)(*args)
    entries = rec.record.entries
    return {
        f"{entries[one.source].name} -> {entries[one.target].name}"
        for one in Graph.of(rec.record).flows
        if one.edge is None
    }


class Stacked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList([torch.nn.Linear(3, 3)])

    def forward(self, x):
        for i, part in enumerate(self.parts):
            h = torch.tanh(part(x))
            r = x + part(x) * i
        return h.sum() + r.sum()


def test_what_a_module_is_given_does_not_flow_past_it():
    found = dashed(Stacked(), torch.ones(2, 3), select=["**", "**:*"])
    assert not {"x -> h", "h -> i", "parts.0 -> i"} & found
    assert {"x -> r", "i -> r"} <= found


def scaled(a, by):
    return a * by


def test_what_a_function_is_given_does_not_flow_past_it():
    def f(x, w):
        k = 3
        u = scaled(w, k) + 1
        v = scaled(w, k) + k
        return (u * v * x).sum()

    found = dashed(f, 2.0, 3.0)
    assert "k -> u" not in found
    assert {"k -> v", "k -> /scaled#0:return"} & found == {"k -> v"} | ({"k -> /scaled#0:return"} & found)


def test_the_items_of_a_loop_do_not_flow_into_its_counter():
    def f(x, w):
        total = 0
        for k, part in enumerate([x * w, x + w]):
            total = total + part * k
        for _, other in {"a": x, "b": 3}.items():
            last = other
        return total * last

    assert not [one for one in dashed(f, 2.0, 3.0) if one.split(" -> ")[1].partition("#")[0] in ("k", "other")]


def test_a_part_of_a_line_takes_what_it_mentions():
    def f(x, w):
        k = 3
        y = torch.relu(x * w) + w * k
        z = (y + x) * k
        return z

    found = dashed(f, 2.0, 3.0, select=[":*", ":*()"])
    assert "k -> y" not in found
    assert {"k -> z"} <= found


def test_an_index_is_neither_copied_nor_pickled():
    rec, graph = indexed()
    bp.explain(rec, "u")
    for record in (copy.copy(rec.record), pickle.loads(pickle.dumps(rec.record))):
        assert vars(record).keys() < vars(rec.record).keys()
        assert Graph.of(record) is not graph and Graph.of(record).positions == graph.positions


def test_what_is_given_and_what_begins():
    def f(x):
        leaf = torch.ones(2, requires_grad=True)
        return (leaf * x).sum()

    rec = bp.probe(f)(torch.tensor([1.0, 2.0], requires_grad=True))
    graph = Graph.of(rec.record)
    names = list(rec)
    assert [name for at, name in enumerate(names) if graph.is_given(at)] == ["x"]
    assert [name for at, name in enumerate(names) if graph.begins(at)] == ["x", "leaf"]


def test_a_result_may_have_another_name():
    rec, graph = indexed()
    assert {list(rec)[at] for at in graph.results} == {"z", "return"}
    assert {list(rec)[at] for at in graph.unnamed_results} == {"return"}
