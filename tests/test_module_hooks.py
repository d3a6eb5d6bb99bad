"""A module whose hooks return another tensor: its name means what the caller gets, whatever is selected."""

import pytest
import torch
from torch import nn

import backprobe as bp
from block_cases import same

pytestmark = pytest.mark.usefixtures("leaves_nothing")


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x):
        h = self.layer(x)
        return h.tanh()


class Pair(Part):
    def forward(self, x):
        h = self.layer(x)
        return {"a": h.tanh(), "b": h}


class Net(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.up, self.down = part, nn.Linear(4, 1)

    def forward(self, x):
        h = self.up(x)
        h = h["a"] if isinstance(h, dict) else h
        y = self.down(h)
        return y.sum()


def scaled(module, inputs, output):
    return output * 2


def one_of_it(module, inputs, output):
    return {"a": output["a"] * 2, "b": output["b"]}


def written(module, inputs, output):
    return output.clone().mul_(2)


def recorded(model, select, form):
    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    if form == "model":
        return bp.probe(model, select)(x)
    with bp.probe(model, select) as rec:
        model(x).backward()
    return rec


def net(kind, hook):
    torch.manual_seed(0)
    model = Net(kind())
    model.up.register_forward_hook(hook)
    return model


SELECTIONS = [
    ["up*"],
    ["up*", "**:h"],
    ["up*", "up:**"],
    ["up*", "up:return"],
    ["**", "**:**"],
    ["up*", "up:forward()"],
]


@pytest.mark.parametrize("form", ["model", "block"])
@pytest.mark.parametrize(
    ("kind", "hook", "name"), [(Part, scaled, "up"), (Part, written, "up"), (Pair, one_of_it, "up:return.a")]
)
def test_the_name_of_a_module_is_what_its_caller_gets_in_every_selection(kind, hook, name, form):
    model = net(kind, hook)
    alone = recorded(model, SELECTIONS[0], form)[name]
    for select in SELECTIONS[1:]:
        entry = recorded(model, select, form)[name]
        assert same(entry.value, alone.value), select
        assert same(entry.grad, alone.grad), select


def test_what_the_forward_itself_returned_has_a_name_of_its_own_where_it_is_asked_for():
    rec = recorded(net(Part, scaled), ["up", "up:forward()"], "model")
    assert list(rec)[:2] == ["up:forward()", "up"]
    assert same(rec["up"].value, rec["up:forward()"].value * 2)
    assert same(rec["up:forward()"].grad, rec["up"].grad * 2)
    assert list(recorded(net(Part, scaled), ["up", "up:h"], "model"))[:2] == ["up:h", "up"]


def test_the_model_itself_may_have_such_a_hook():
    model = Net(Part())
    model.register_forward_hook(scaled)
    for select in ([":return"], [":return", "**:h"], [":return", ":forward()"]):
        rec = recorded(model, select, "model")
        assert rec["return"].grad.item() == 1
        assert (":forward()" in rec) == (":forward()" in select)


def test_a_hook_that_returns_nothing_leaves_one_value():
    model = Net(Part())
    model.up.register_forward_hook(lambda module, inputs, output: None)
    rec = recorded(model, ["up", "up:**"], "block")
    assert "up:forward()" not in rec
    assert rec["up"].grad is not None


def test_every_call_of_the_module_has_its_own():
    class Twice(Net):
        def forward(self, x):
            h = self.up(x) + self.up(x * 2)
            return self.down(h).sum()

    model = Twice(Part())
    model.up.register_forward_hook(scaled)
    rec = recorded(model, ["up", "up:forward()"], "model")
    assert list(rec)[:4] == ["up#0:forward()", "up#0", "up#1:forward()", "up#1"]
    assert same(rec["up#1"].value, rec["up#1:forward()"].value * 2)
