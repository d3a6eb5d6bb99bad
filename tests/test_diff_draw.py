"""A comparison drawn on the circuit of the second recording."""

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message
from circuit_pages import recorded
from drawn import Drawn


def right(x, w):
    u = x * w
    v = torch.sin(u)
    y = v + u
    return y.sum()


def wrong(x, w):
    u = x * w
    half = u * 0.5
    v = torch.sin(half)
    y = v + u
    return y.sum()


X, W = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.5, 1.5, -1.0])


def report():
    return bp.diff(bp.probe(right)(X, W), bp.probe(wrong)(X, W))


def test_each_node_says_how_far_it_is_from_the_reference_and_what_is_named_stands_out():
    found = report()
    shown = Drawn(bp.draw(found).svg)
    v = next(row.value for row in found.rows if row.a.name == "v")
    assert f"value differs: relative error {v.measure.relative:.2g}, " in "\n".join(shown.nodes["v"])
    assert shown.nodes["u"][1] == "value equal" and shown.nodes["u"][2].startswith("gradient differs: ")
    assert "blamed" in shown.classes["v"] and "blamed" not in shown.classes["y"]
    assert "missing" in shown.classes["half"]  # which has no partner
    assert found.heading in shown.text and any(line.startswith("fill: the larger error") for line in shown.text)


@pytest.mark.parametrize(("factor", "level"), [(1.0, None), (1.0015, "level1"), (1.02, "level2"), (3.0, "level4")])
def test_the_fill_is_that_of_the_error_by_floor(factor, level):
    def scaled(x, by):
        u = x * by
        return u.sum()

    a, b = (bp.probe(scaled, wrt="x")(X, by) for by in (torch.tensor(1.0), torch.tensor(factor)))
    shown = Drawn(bp.draw(bp.diff(a, b)).svg)
    assert [one for one in shown.classes["u"] if one.startswith("level")] == ([level] if level else [])


class Block(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.linear, self.rate = nn.Linear(4, 4), rate

    def forward(self, x):
        h = self.linear(x)
        h = h * self.rate
        return torch.tanh(h)


class Flat(nn.Module):
    def forward(self, x):
        h = x + 1.0
        return h * 0.0


def stacked(rate):
    torch.manual_seed(0)
    model = nn.Sequential(Block(1.0), Block(rate), Flat())
    return bp.probe(model, ["**", "**:*"], of=torch.sum)(torch.ones(2, 4))


def test_the_box_of_what_is_named_is_open_and_closed_ones_look_like_the_worst_inside():
    found = bp.diff(stacked(1.0), stacked(1.5))
    assert found.first.name == "1:h#1"
    shown = Drawn(bp.draw(found, depth=1).svg)
    assert shown.frames == ["1"] and "h#1" in shown.nodes
    closed = shown.nodes["2"]
    assert "value equal" in closed and "inside, 2:h: value differs: " in " ".join(closed)
    page = bp.draw(found).page
    opened = recorded(page)
    named = next(value for value in opened["values"] if value["name"] == "1:h#1")
    assert named["health"] == "blamed" and named["box"] in opened["open"] and "value differs: " in named["notes"][0]


def test_a_report_has_no_contributions_and_other_reports_are_not_drawn():
    assert "the recording has no contributions" in message(bp.BadOption, lambda: bp.draw(report(), contributions=True))
    other = bp.explain(bp.probe(right)(X, W))
    assert "draw draws a recording, not " in message(bp.BadOption, lambda: bp.draw(other))


def test_a_module_that_is_not_called_has_nothing_to_compare():
    class Net(nn.Module):
        def __init__(self, is_used):
            super().__init__()
            self.linear, self.spare, self.is_used = nn.Linear(3, 3), nn.Tanh(), is_used

        def forward(self, x):
            h = self.linear(x)
            return self.spare(h) if self.is_used else h

    def recorded(is_used):
        torch.manual_seed(0)
        return bp.probe(Net(is_used), of=torch.sum)(X)

    bp.diff(recorded(False), recorded(False)).assert_ok(strict=True)
    found = bp.diff(recorded(True), recorded(False))
    assert "the values of 'spare' were not compared: not executed in the second" in found.notes
