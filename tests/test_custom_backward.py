"""Backwards written in Python that return None or zeros: the function's name and the line of its backward are said."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from asked import kinds, leaf, well
from goldens import golden


def rounding(gives):
    """A function that rounds, and its backward."""

    class Rounding(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.round()

        @staticmethod
        def backward(ctx, gradient):
            return gives(gradient)

    return Rounding.apply


class Scaled(torch.autograd.Function):
    """The product of a value with a scale, which gets no gradient."""

    @staticmethod
    def forward(ctx, value, scale):
        ctx.save_for_backward(scale)
        return value * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


class Silent(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(value):
        return value * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vjp(ctx, gradient):
        return None


class Net(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act, self.first, self.last = act, nn.Linear(3, 3), nn.Linear(3, 1)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.last(self.act(self))


def none_for_a_parameter(net):
    return Scaled.apply(net.first(X), net.scale)


def none_for_what_is_computed_from_one(net):
    return Scaled.apply(net.first(X), F.softplus(net.scale) + 1)


def none_under_another_name(net):
    function = Scaled.apply
    parts = [function(net.first(row), net.scale) for row in X]
    return torch.stack(parts)


X = torch.ones(2, 3)


def trained(net, block, steps=1):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with block as rec:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = net(X).square().mean()
            loss.backward()
            optimizer.step()
    return bp.explain(rec)


@pytest.mark.parametrize("of_model", [True, False])
@pytest.mark.parametrize("act", [none_for_a_parameter, none_for_what_is_computed_from_one, none_under_another_name])
def test_none_for_a_parameter_is_said_of_the_function(act, of_model):
    net = Net(act)
    report = trained(net, bp.probe(net) if of_model else bp.probe(), steps=2)
    said = [one for one in report.findings if one.source is not None and one.source.text.startswith("def backward")]
    assert [one.headline for one in said] == ["`Scaled.backward()` returned None in the place of a gradient"]
    assert said[0].lost == (f"{'' if of_model else 'net.'}scale",)
    assert "nothing that was recorded leads from it" not in str(report)


def test_none_between_two_values_is_said_of_the_function():
    def program(x, w):
        u = x * w
        v = rounding(lambda gradient: None)(u * 2)
        return (v * w).sum()

    rec = bp.probe(program)(leaf(1.0, 2.0), leaf(3.0, 4.0))
    for report in (bp.explain(rec), bp.explain(rec, "x")):
        (finding,) = report.findings
        golden("explain", finding)
    golden("explain", bp.explain(rec, "x"))


def test_a_vjp_without_backward_and_two_functions_are_named():
    def program(x, w):
        u = x * w
        return (Silent.apply(u) * w + rounding(lambda gradient: None)(u)).sum()

    (finding,) = bp.explain(bp.probe(program)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "u").findings
    names = finding.headline.partition(" returned None")[0]
    assert sorted(names.split(", ")) == ["Rounding.backward()", "Silent.vjp()"]


def test_a_way_around_it_is_not_said_to_be_none():
    def program(x, w):
        u = x * w
        return (rounding(lambda gradient: None)(u) * w + u).sum()

    rec = bp.probe(program)(leaf(1.0, 2.0), leaf(3.0, 4.0))
    assert "returned None" not in str(bp.explain(rec)) + str(bp.explain(rec, "u"))


def test_what_is_not_used_is_not_said_to_go_through_one():
    def program(x, w):
        u = x * w
        v = x + w
        return (rounding(lambda gradient: gradient)(u)).sum()

    assert kinds(bp.explain(bp.probe(program)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "v")) == ["unused"]


ZEROS = {
    "zeros": torch.zeros_like,
    "a product with zero": lambda gradient: gradient * 0,
    "a mask that leaves nothing": lambda gradient: gradient.masked_fill(torch.ones_like(gradient) > 0, 0.0),
}


@pytest.mark.parametrize("of_model", [True, False])
@pytest.mark.parametrize("gives", ZEROS)
def test_zeros_for_parameters_are_a_note_with_the_function_and_its_line(gives, of_model):
    """They may be meant, as where the gradient is reversed with a weight that begins at 0."""
    net = Net(lambda net: rounding(ZEROS[gives])(net.first(X) * net.scale))
    report = well(trained(net, bp.probe(net) if of_model else bp.probe()))
    (note,) = [note for note in report.notes if "zero everywhere" in note]
    assert "Rounding.backward() (" in note
    assert ": def backward(ctx, gradient):)" in note
    assert all(name in note for name in ("net.first.weight", "net.first.bias", "net.scale"))
    assert "last" not in note


def test_zeros_for_an_argument_are_a_note():
    def program(x, w):
        return (rounding(torch.zeros_like)(x * w) * w).sum()

    (note,) = bp.explain(bp.probe(program)(leaf(1.0, 2.0), leaf(3.0, 4.0)), experiments=False).notes
    golden("explain", note)


@pytest.mark.parametrize(
    "act",
    [
        lambda net: rounding(lambda gradient: gradient)(net.first(X) * net.scale),
        lambda net: rounding(torch.zeros_like)(net.first(X)) + net.first(X) * net.scale,
    ],
    ids=["straight through", "with a way around it"],
)
def test_of_others_nothing_is_said(act):
    assert "zero everywhere" not in str(trained(Net(act), bp.probe()).notes)


def test_the_training_is_the_same():
    weights = []
    for block in (None, bp.probe()):
        torch.manual_seed(0)
        net = Net(lambda net: rounding(torch.zeros_like)(net.first(X)) * net.scale)
        if block is None:
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            net(X).square().mean().backward()
            optimizer.step()
        else:
            trained(net, block)
        weights.append([one.detach().clone() for one in net.parameters()])
    assert all(map(torch.equal, *weights))
