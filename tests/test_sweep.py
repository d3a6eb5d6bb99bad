"""``bp.sweep`` in PyTorch: against the program run once for each value, with that value replaced by hand."""

import math
import random
import signal
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message
from backprobe.sweep.result import Replaced
from outside import note, noted


def toy(x, w):
    u = x * w
    v = u + 1
    return (v * u).sum()


X, W, CLEAN = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5]), torch.tensor([2.0, 4.0])


def swept(select, replace=torch.zeros_like, function=toy, **options):
    return bp.sweep(function, select, replace=replace, **options)(X, W)


def test_one_run_for_each_value():
    found = swept(["u", "v", "w"])
    assert found.output == toy(X, W).item()
    assert found.outputs == {"w": 0.0, "u": 0.0, "v": 0.0}
    assert found.effects == {name: -found.output for name in ("w", "u", "v")}
    assert list(swept(["v", "u"]).effects) == ["u", "v"], "in the order of the program"


def test_values_of_another_recording():
    clean = bp.probe(toy)(CLEAN, W)
    found = swept(["x", "u", "v"], clean)
    u, v = X * W, CLEAN * W + 1
    assert found.outputs == {"x": toy(CLEAN, W).item(), "u": toy(CLEAN, W).item(), "v": (v * u).sum().item()}
    assert swept("u", bp.probe(toy, "u")(CLEAN, W)).outputs == {"u": toy(CLEAN, W).item()}


def test_each_index_of_an_axis_has_a_run():
    found = swept("u", lambda u: u * 10, axis=0)
    u = X * W
    first, second = torch.stack([u[0] * 10, u[1]]), torch.stack([u[0], u[1] * 10])
    assert found.outputs == {"u[0]": ((first + 1) * first).sum().item(), "u[1]": ((second + 1) * second).sum().item()}
    assert found.grid.shape == (1, 2)
    assert swept("u", lambda u: u * 10, axis=-1).outputs == found.outputs


def test_indices_come_in_the_order_of_the_axes_that_were_asked_for():
    x = torch.arange(6.0).reshape(2, 3)
    found = bp.sweep(lambda x: (x * x).sum(), "x", replace=torch.zeros_like, axis=(1, 0))(x)
    assert list(found.effects) == ["x[0, 0]", "x[1, 0]", "x[0, 1]", "x[1, 1]", "x[0, 2]", "x[1, 2]"]
    assert found.grid.tolist() == [(-x * x).T.tolist()]


def test_values_of_different_sizes_leave_gaps_in_the_grid():
    def uneven(x, w):
        u = torch.cat([x, w])
        return (u * u).sum() * x.sum()

    found = swept(["x", "u"], function=uneven, axis=0)
    assert found.names == ["x", "u"]
    assert np.isnan(found.grid).tolist() == [[False, False, True, True], [False] * 4]


def test_gradient_times_change_beside_the_effects():
    found = swept(["u", "v"], approximate=True)
    u, v = X * W, X * W + 1
    assert found.approximations == {"u": (-(u + v) * u).sum().item(), "v": (-u * v).sum().item()}
    linear = bp.sweep(lambda x: (x * 3 + 1).sum(), "x", replace=torch.zeros_like, axis=0, approximate=True)(X)
    assert linear.approximations == linear.effects
    assert linear.agreement == pytest.approx(1.0)
    clean = bp.probe(toy)(CLEAN, W)
    assert swept("v", clean, approximate=True).approximations == {"v": ((CLEAN - X) * W * u).sum().item()}


def test_a_value_without_a_gradient_has_no_approximation():
    def cut(x, w):
        u = (x * w).detach()
        beside = x * 2
        return (u * x).sum() * 1.0

    found = swept(["u", "beside"], function=cut, approximate=True)
    assert found.effects == {"u": -found.output, "beside": 0.0}
    assert found.approximations == {"beside": 0.0}
    assert "–" in str(found)
    assert math.isnan(found.agreement)


def test_the_output_may_be_any_value():
    def inner(x, w):
        scores = x * w
        loss = scores.sum()
        return scores * 2, loss

    assert swept("x", function=inner, of="scores[1]").outputs == {"x": 0.0}
    assert swept("x", function=inner, of="1").output == (X * W).sum().item()
    assert swept("scores", function=inner, of=lambda result: result[0].mean()).effects == {
        "scores": -(X * W).mean().item() * 2
    }


def test_dropout_is_the_same_in_all_runs_and_draws_nothing():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)), torch.ones(1, 4)
    before = torch.get_rng_state()
    found = bp.sweep(model, ["0", "2"], of=torch.sum, replace=lambda value: value)(x)
    assert set(found.effects.values()) == {0.0}
    assert torch.equal(torch.get_rng_state(), before)
    assert found.output == model(x).sum().item()


class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(3)

    def forward(self, x):
        return (x * torch.randn(x.shape, generator=self.generator)).sum()


GENERATOR, NUMPY, PYTHON = torch.Generator().manual_seed(1), np.random.default_rng(0), random.Random(0)


def by_globals(x):
    return (x * torch.randn(2, generator=GENERATOR)).sum() * NUMPY.random() * PYTHON.random()


def by_argument(x, generator):
    return (x * torch.randn(2, generator=generator)).sum()


@pytest.mark.parametrize("target", [Drawing(), by_globals, by_argument, lambda x: by_globals(x) + np.random.rand()])
def test_generators_that_a_program_holds_finds_or_is_given_begin_alike(target):
    given = (X, torch.Generator().manual_seed(2)) if target is by_argument else (X,)
    states = [given[-1].get_state()] if target is by_argument else [GENERATOR.get_state()]
    found = bp.sweep(target, ":x", replace=lambda x: x * 1)(*given)
    assert found.effects == {found.runs[0].shown: 0.0}
    assert torch.equal(given[-1].get_state() if target is by_argument else GENERATOR.get_state(), states[0])
    assert found.output == bp.sweep(target, ":x", replace=lambda x: x * 1)(*given).output


def test_nothing_is_left_behind():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)), torch.ones(1, 4)
    before = {name: value.clone() for name, value in model.named_parameters()}
    bp.sweep(model, "**", of=torch.sum, replace=torch.zeros_like, approximate=True)(x)
    assert all(torch.equal(before[name], value) and value.grad is None for name, value in model.named_parameters())
    assert all(not module._forward_hooks for module in model.modules())


def test_parameters_and_counts():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(self.layer(x))

    torch.manual_seed(0)
    model, x = Twice(), torch.ones(1, 2)
    found = bp.sweep(model, "**", of=torch.sum, replace=torch.zeros_like)(x)
    assert list(found.effects) == ["layer.weight", "layer.bias", "layer#0", "layer#1"]
    assert found.outputs["layer#0"] == model.layer(torch.zeros(1, 2)).sum().item()
    assert found.outputs["layer#1"] == 0


def test_a_module_that_did_not_run_is_noted():
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    model.forward = lambda x: model["a"](x)
    found = bp.sweep(model, ["a", "b"], of=torch.sum, replace=torch.zeros_like)(torch.ones(1, 2))
    assert list(found.effects) == ["a"]
    assert found.notes == ("did not run, and was not replaced: b",)


def test_a_sweep_that_is_stopped_has_the_runs_until_then():
    calls = []

    def stopping(u):
        calls.append(u)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return u * 0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt) as stopped:
            swept(["u", "v"], stopping)
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped.value.so_far.effects == {"u": -toy(X, W).item()}


def test_a_table_of_many_is_shortened():
    def many(x):
        u = x * 2
        return u.sum()

    found = bp.sweep(many, "u", replace=torch.zeros_like, axis=0)(torch.ones(80))
    lines = str(found).splitlines()
    assert lines[0] == "return of many is 160; with one value replaced at a time:"
    assert lines[1].split() == ["name", "output", "effect"]
    assert lines[2].split() == ["u[0]", "158", "-2"]
    assert "… 20 more" in lines
    assert len(lines) == 63
    assert "<td>u[79]</td>" in found._repr_html_()
    assert repr(found) == "<backprobe.Sweep of 80 runs: return of many>"


# bad input


@pytest.mark.parametrize(
    "options, kind, said",
    [
        ({"select": "uu"}, bp.NothingMatched, "the pattern 'uu' matches nothing in toy\n"),
        ({"select": "return"}, bp.NothingMatched, "'return' matches nothing in toy that can be rep"),
        ({"of": "v"}, bp.BadOutput, "one real number\n  asked: of='v'\n  found: a tensor of shape \\(2,\\)"),
        ({"of": "loss"}, bp.BadOutput, "the return value has nothing at 'loss'"),
        ({"of": 1.5}, bp.BadOption, "of is a path"),
        ({"select": None}, bp.BadOption, "a sweep is about named values"),
        ({"select": 3}, bp.BadOption, "select is a text or a list of texts"),
        ({"replace": 3.0}, bp.BadOption, "replace is a function of each value, or a recording that has them"),
        ({"replace": {"u": X}}, bp.BadOption, "replace is a function of each value"),
        ({"replace": lambda u: u.sum()}, bp.BadOption, "what replaces 'u' has another shape"),
        ({"replace": lambda u: u.sum(), "axis": 0}, bp.BadOption, "what replaces 'u' has another shape"),
        ({"axis": 1}, bp.BadOption, "'u' does not have these axes\n  asked: axis=1\n  found: shape \\(2,\\)"),
        ({"axis": (0, -1)}, bp.BadOption, "'u' does not have these axes"),
        ({"axis": "0"}, bp.BadOption, "axis is the number of an axis"),
        ({"approximate": "yes"}, bp.BadOption, "approximate is True or False"),
        ({"function": 3}, bp.BadOption, "an int is neither a function nor a model"),
        ({"function": nn.Linear}, bp.BadOption, "Linear is a class"),
    ],
)
def test_what_cannot_be_swept(options, kind, said):
    options = {"select": "u", **options}
    with pytest.raises(kind, match=said):
        swept(options.pop("select"), **options)


def test_a_recording_that_does_not_fit_is_refused_before_anything_is_replaced():
    def counted(x, w):
        note()
        return toy(x, w)

    def refused(clean):
        noted()
        with pytest.raises(bp.BadOption) as caught:
            swept("/toy:u", clean, counted)
        assert len(noted()) == 1
        return str(caught.value)

    lacking = refused(bp.probe(counted, "/toy:v")(CLEAN, W))
    assert lacking.startswith("the other recording has no value named '/toy:u'\n")
    assert "next:  clean = bp.probe(counted, '/toy:u', ...)(...)" in lacking
    longer = refused(bp.probe(counted, "/toy:u")(torch.ones(3), torch.ones(3)))
    assert longer.startswith("'/toy:u' has another shape in the other recording\n")
    assert "found: shape (3,) in the place of (2,)" in longer
    assert refused(bp.probe(counted, "/toy:u")(X.double(), W.double())).startswith("'/toy:u' has another dtype")


def test_approximations_must_be_asked_for():
    assert "next:  bp.sweep(..., approximate=True)" in message(bp.BadOption, lambda: swept("u").agreement)


@pytest.mark.parametrize("axis", [None, 0])
def test_what_a_write_in_place_made_is_noted_and_left(axis):
    def written(x, w):
        u = x * w
        u.add_(1)
        v = u * x
        return v.sum()

    found = swept("*", function=written, axis=axis, approximate=True)
    assert found.notes == ("not bound by a statement, and was not replaced: u#1",)
    assert found.names == ["x", "w", "u#0", "v"]
    assert "note: not bound by a statement" in str(found)


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("what", [lambda value: value * 0, lambda value: value / 0, lambda value: value * 1e38])
def test_effects_that_are_not_finite_are_shown_without_a_warning(what, axis):
    def beyond(x, w):
        u = x * w
        v = u.exp()  # Inf at 301
        return (v * 0).nan_to_num().sum() + u.sum().sqrt()

    found = bp.sweep(beyond, ["x", "u", "v"], replace=what, axis=axis, approximate=True)(
        torch.tensor([1.0, 100.0]), torch.tensor([1.0, 3.0])
    )
    with warnings.catch_warnings(record=True) as caught:  # Python's own, after those that are errors in these tests
        warnings.simplefilter("always")
        assert "gradient × change" in str(found)
        assert math.isnan(found.agreement)
        assert found._repr_html_()
    assert not caught


def test_agreement_of_numbers_that_are_huge_or_cancel():
    def runs(*pairs):
        return tuple(Replaced(str(at), (), str(at), *pair) for at, pair in enumerate(pairs))

    def agreement(*pairs):
        return bp.Sweep("f", "loss", 0.0, runs(*pairs), is_approximate=True).agreement

    assert agreement((1e308, 1e308), (1.7e308, 1.7e308), (-1e308, -1e308)) == pytest.approx(1.0)
    assert agreement((1e-310, -1e-310), (3e-310, -3e-310)) == pytest.approx(-1.0)
    assert math.isnan(agreement((math.inf, 1.0), (-math.inf, 2.0)))
    assert math.isnan(agreement((1.0, math.nan), (2.0, 2.0)))


def test_a_value_without_indices_along_an_axis_is_noted():
    found = bp.sweep(lambda x: (x[:0] * 2).sum() + x.sum(), ["x", "mul()"], replace=torch.zeros_like, axis=0)(X)
    assert found.names == ["x"]
    assert found.notes == ("without an index along axis=0, and not replaced: mul()",)


def test_a_complex_output_is_refused():
    with pytest.raises(bp.BadOutput, match="one real number"):
        bp.sweep(lambda x: (x * 1j).sum(), "x", replace=torch.zeros_like)(X)


def test_a_model_that_is_not_differentiated():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 1)).requires_grad_(False), torch.tensor([1, 2])
    found = bp.sweep(model, ["0", "1"], of=torch.sum, replace=torch.zeros_like)(x)
    assert found.output == model(x).sum().item()
    assert found.outputs == {"0": model[1](torch.zeros(2, 4)).sum().item(), "1": 0.0}
    with torch.no_grad():
        again = bp.sweep(model.requires_grad_(), ["0", "1"], of=torch.sum, replace=torch.zeros_like)(x)
    assert again == found
    with pytest.raises(bp.NothingToDifferentiate):
        bp.sweep(model.requires_grad_(False), "0", of=torch.sum, replace=torch.zeros_like, approximate=True)(x)


def test_no_run_goes_backward_but_the_first_of_an_approximate_sweep():
    class Counted(torch.autograd.Function):
        went = 0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            Counted.went += 1
            return gradient * 2

    def counted(x, w):
        u = Counted.apply(x)
        v = u * w
        return v.sum()

    swept(["x", "u"], function=counted)
    assert Counted.went == 0
    swept(["x", "u"], function=counted, approximate=True)
    assert Counted.went == 1


def test_the_output_stays_the_same_where_replacing_cuts_it_off():
    def several(x):
        u = x * 2
        return u.sum(), torch.tensor(3.0)

    found = bp.sweep(several, "u", replace=lambda u: u.detach() * 0, approximate=True)(X.clone().requires_grad_())
    assert (found.output, found.outputs) == (-2.0, {"u": 0.0})


def test_a_local_with_the_name_of_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.out = nn.Linear(2, 2), nn.Linear(2, 1)

        def forward(self, x):
            hidden = self.hidden(x).relu()
            return self.out(hidden + 1).sum()

    torch.manual_seed(0)
    model, x, other = Net(), torch.ones(1, 2), torch.ones(1, 2) * 5
    for replace in (torch.zeros_like, bp.probe(model, ":hidden")(other)):
        value = model.hidden(other).relu() if isinstance(replace, bp.Recording) else torch.zeros(1, 2)
        assert bp.sweep(model, ":hidden", replace=replace)(x).outputs == {"hidden": model.out(value + 1).sum().item()}
    found = bp.sweep(model, [":hidden", "hidden"], replace=torch.zeros_like)(x)
    assert list(found.outputs) == ["hidden", ":hidden"]
