"""A value without a gradient that a line gives to a module is read by the module, and not by the rest of the line."""

import torch
from torch import nn

import backprobe as bp
from backprobe.backends.discover import load_arrays
from backprobe.show.captions import Captions
from backprobe.show.flows import flows_of


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 1)
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

    def forward(self, x, mask):
        h = torch.relu(self.a(x))
        g = self.a(h) * mask
        k = self.layers[0](x + 1) + x
        t = self.layers[1](x) + self.layers[1](h)
        return self.b(g + k + t).sum()


def dashed(rec):
    names = [entry.name for entry in rec.record.entries]
    return {(names[flow.source], names[flow.target]) for flow in flows_of(rec.record) if flow.edge is None}


def test_a_frozen_input_leads_to_the_module_that_it_is_given_to():
    rec = bp.probe(Net(), ["**", ":*"])(torch.ones(2, 3), torch.ones(3))
    assert dashed(rec) == {("x", "a#0"), ("x", "layers.0"), ("x", "k"), ("mask", "g")}


def test_a_differentiated_input_has_its_edge():
    x = torch.ones(2, 3, requires_grad=True)
    rec = bp.probe(Net(), ["**", ":*"])(x, torch.ones(3))
    assert dashed(rec) == {("mask", "g")}
    assert "x" in [edge.name for edge in rec["a#0"].inputs]


def test_what_a_line_cuts_off_itself_is_read_by_its_result():
    def program(x, w):
        a = x * w
        b = x + a.detach()
        c = b * a.sum().item()
        return (c + x.shape[0]).sum()

    assert dashed(bp.probe(program)(torch.ones(2), torch.ones(2))) == {("a", "b"), ("a", "c")}


def test_what_a_module_gives_and_a_line_cuts_off_is_read_by_its_result():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = torch.nn.Linear(2, 2)

        def forward(self, x):
            h = x * 2
            return h + self.m(h).detach()

    net = Net()
    with bp.probe(net, ["**", "**:*"]) as rec:
        net(torch.ones(2, requires_grad=True)).sum().backward()
    assert dashed(rec) == {("m", "return")}


def test_a_part_that_is_a_value_of_its_own_is_what_the_result_reads():
    def program(x, w):
        a = x * w
        return x + a.detach()

    rec = bp.probe(program, ["**", "**:*()"], cotangent=torch.ones(2))(torch.ones(2), torch.ones(2))
    assert ("a", "return") not in dashed(rec)


class Scored(torch.nn.Module):
    """Ids, a constant and targets are data; one bias is frozen, and one value is cut off."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 3)
        self.head.bias.requires_grad_(False)

    def forward(self, ids, scale, targets):
        doubled = scale * 2
        bias = self.head.bias * 1
        h = self.head(self.embed(ids)) * doubled + bias
        best = h.argmax(-1)
        return ((h - targets) ** 2).mean() + (best * h.detach().sum(-1)).sum() * 0


def test_plain_data_is_not_drawn_as_frozen():
    given = torch.tensor([1, 2]), torch.ones(3), torch.zeros(2, 3)
    rec = bp.probe(Scored(), ["**", ":*"])(*given)
    captions = Captions(rec.record, load_arrays("torch"))
    said = {entry.name: captions.gradient(at, entry.name) for at, entry in enumerate(rec.record.entries)}
    data = ["data: not differentiated"]
    assert [said[name] for name in ("ids", "scale", "targets", "doubled")] == [data] * 4
    assert said["head.bias"][0] == "no gradient: frozen"
    assert said["bias"][0] == "no gradient: frozen"
    assert said["best"][0] == "no gradient: not_float"
    drawn = bp.draw(rec, open="**").svg
    assert drawn.count("data: not differentiated") == 4
    assert drawn.count("no gradient: frozen") == 1
