"""Cuts in the code of modules: what a module returns has no name of its own in the line that calls it."""

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from asked import Parts
from goldens import golden

EVERY = ["**", "**:*"]


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])


class Named(Base):
    def forward(self, x):
        h = self.a(x).detach()  # the cut
        return self.b(h)


class Given(Base):
    def forward(self, x):
        return self.b(self.a(x).detach())  # the cut


class Wrapped(Base):
    def forward(self, x):
        h = self.a(x).detach()  # the cut
        return self.b(torch.tanh(h))


class Helped(Base):
    def helper(self, x):
        return self.a(x).data  # the cut

    def forward(self, x):
        return self.b(self.helper(x))


class ThroughNumpy(Base):
    def forward(self, x):
        return self.b(torch.from_numpy(self.a(x).detach().numpy()))  # the cut


class Positions(Base):
    def forward(self, x):
        return self.b(F.one_hot(self.a(x).argmax(-1), 4).float())  # the cut


class Looped(Base):
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).detach()  # the cut
        return self.b(x)


class Picked(Base):
    def forward(self, x):
        x = torch.tanh(self.layers[0](x)).detach() + self.layers[1](x)  # the cut
        return self.b(x)


class Item(Base):
    def forward(self, x):
        return self.b(x) * self.a(x).mean().item()  # the cut


class Rebound(Base):
    def forward(self, x):
        h = self.a(x)
        h = h.detach()  # the cut
        return self.b(h)


KINDS = {
    Named: "detach",
    Given: "detach",
    Wrapped: "detach",
    Helped: "data",
    ThroughNumpy: "numpy",
    Positions: "index",
    Looped: "detach",
    Picked: "detach",
    Item: "number",
    Rebound: "detach",
}
by_class = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def cut_line(kind):
    lines, first = inspect.getsourcelines(kind)
    return next(first + at for at, line in enumerate(lines) if "# the cut" in line)


def in_block(model):
    with bp.probe(model, EVERY) as rec:
        model(torch.ones(2, 4)).sum().backward()
    return rec


def in_model_form(model):
    return bp.probe(model, EVERY, of=lambda y: y.sum())(torch.ones(2, 4))


@by_class
@pytest.mark.parametrize("probed", [in_block, in_model_form])
def test_a_cut_of_what_a_module_returns(kind, probed):
    rec = probed(kind())
    lost = {Looped: "layers.0", Picked: "layers.0"}.get(kind, "a")
    for report in (bp.explain(rec), bp.explain(rec, f"{lost}.weight")):
        cuts = [one for one in report.findings if one.kind not in ("unused", "not_executed")]
        assert [(one.kind, one.source.line) for one in cuts] == [(KINDS[kind], cut_line(kind))]
        assert cuts[0].source.file == __file__


def test_two_layers_of_one_class_are_not_one_computation():
    rec = in_block(Item())
    assert not any(one.kind == "made_again" for one in bp.explain(rec).findings)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(12)])

    def forward(self, x):
        with torch.no_grad():
            return self.layers(x)


class OnTop(Parts):
    def forward(self, x):
        return self.head(self.backbone(x))


@pytest.mark.parametrize("patterns", [["**"], EVERY])
def test_a_backbone_under_no_grad_is_one_finding(patterns):
    model = OnTop(backbone=Backbone(), head=nn.Linear(4, 1))
    with bp.probe(model, patterns) as rec:
        model(torch.ones(2, 4)).sum().backward()
    (found,) = bp.explain(rec).findings
    assert found.kind == "no_grad"
    first = "'backbone.layers.0.0' is computed from 'backbone.layers.0.0.weight' under torch.no_grad()"
    assert found.headline.startswith(first)
    golden("explain", found)
    by_name = bp.explain(rec, "backbone.layers.3.0.bias").findings
    assert [one.kind for one in by_name] == ["no_grad"]


def test_a_line_of_the_framework_is_named_once_in_a_note():
    with pytest.raises(RuntimeError, match="does not require grad") as failed, bp.probe(model := Backbone(), EVERY):
        model(torch.ones(2, 4)).sum().backward()
    (note,) = [one for one in failed.value.__notes__ if "cut:" in one]
    assert note.count("cut:") == 1


def test_a_parameter_is_read_by_the_line_that_mentions_it():
    rec = in_block(Named())
    assert ("self.weight", "a.weight") in [(read.spelled, read.name) for read in rec["a"].reads]
