"""Two programs compared segment by segment: each mistake is found by itself, whatever comes before it."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import message
from goldens import golden
from planted import FAULTS, arguments, floor, program


def live(fault, *others):
    lines = [(one.line, one.wrong) for one in (fault, *others)]
    model = fault.model
    return bp.diff_live(program(model), program(model, *lines), noise=floor(model))(*arguments(model))


def has_line(finding, fault):
    return fault.wrong in " ".join(str(finding).split())


def is_named(report, fault):
    return any(
        (one.name, one.direction) == (fault.name, fault.direction) and has_line(one, fault) for one in report.findings
    )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: f"{one.kind} {one.model}")
def test_a_planted_fault_is_named_and_no_other_line(fault):
    report = live(fault)
    assert is_named(report, fault) and all(has_line(one, fault) for one in report.findings), str(report)


def spread():
    """Pairs of faults in one model, a forward one and a backward one, where neither is in the line of the other."""
    for model in ("perceptron", "transformer", "recurrent"):
        ways = [
            [one for one in FAULTS if one.model == model and one.direction == way and one.kind != "dtype cast"]
            for way in ("forward", "backward")
        ]
        yield from [pair for pair in itertools.product(*ways) if pair[0].line != pair[1].line][::5]


@pytest.mark.parametrize(("first", "second"), list(spread()))
def test_two_faults_in_one_program_are_both_named(first, second):
    report = live(first, second)
    assert is_named(report, first), str(report)
    blamed = [one for one in report.findings if not has_line(one, first)]
    assert all(has_line(one, second) for one in blamed), str(report)
    # where both lines give the gradient of one value, that is explained by the line whose value is wrong
    assert is_named(report, second) or second.name in EXPLAINED, str(report)


EXPLAINED = {"e", "h#3", "h#4", "r"}


class Wrong(torch.autograd.Function):
    """The sine, with half of its derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        return 0.5 * gradient * torch.cos(ctx.saved_tensors[0])


class Block(nn.Module):
    def __init__(self, sine=torch.sin, factor=1.0):
        super().__init__()
        self.linear, self.sine, self.factor = nn.Linear(4, 4), sine, factor

    def forward(self, x):
        h = self.linear(x)
        s = self.sine(h) * self.factor
        return x + s


def model(*options):
    """Blocks with these options, whose parameters are the same each time."""
    torch.manual_seed(0)
    return nn.Sequential(*(Block(**one) for one in options))


X = torch.linspace(-1, 1, 8).reshape(2, 4)
EVERY = ["**", "**:*"]


def test_wrong_backwards_of_several_blocks_of_a_model_are_each_found():
    right, wrong = model({}, {}, {}, {}), model({}, {"sine": Wrong.apply}, {"factor": 1.5}, {"sine": Wrong.apply})
    report = bp.diff_live(right, wrong, EVERY, of=torch.sum)(X)
    assert [(one.name, one.direction) for one in report.findings] == [
        ("2:s", "forward"),
        ("3.linear", "backward"),
        ("1.linear", "backward"),
    ], str(report)
    plain = bp.diff(*(bp.probe(one, EVERY, of=torch.sum)(X) for one in (right, wrong)))
    assert not any(one.name == "1.linear" for one in plain.findings)


def test_models_arguments_and_random_numbers_are_left_as_they_were():
    class Noisy(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.norm, self.factor = nn.BatchNorm1d(4), factor

        def forward(self, x):
            h = self.norm(x) + torch.randn(2, 4)
            return (h * self.factor).sum()

    models, state = (Noisy(1.0), Noisy(2.0)), torch.get_rng_state()
    before = [{name: value.clone() for name, value in one.state_dict().items()} for one in models]
    report = bp.diff_live(*models, EVERY)(X)
    assert [one.name for one in report.findings] == ["return"] or report.first.name == "return", str(report)
    assert not any(row.value.kind for row in report.rows if row.a.name == "h")
    assert torch.equal(torch.get_rng_state(), state)
    for one, values in zip(models, before, strict=True):
        assert all(torch.equal(value, values[name]) for name, value in one.state_dict().items())
        assert all(parameter.grad is None for parameter in one.parameters())


def test_what_cannot_be_exchanged_is_said_and_nothing_after_it_is_blamed_for_it():
    class Checkpointed(nn.Module):
        def __init__(self, first):
            super().__init__()
            self.first, self.second = first, nn.Softplus()

        def forward(self, x):
            y = checkpoint(lambda x: self.second(self.first(x)), x, use_reentrant=False)
            return (y * y).sum()

    x = X.clone().requires_grad_()
    report = bp.diff_live(Checkpointed(nn.Tanh()), Checkpointed(nn.Sigmoid()))(x)
    assert [one.name for one in report.findings] == ["first"], str(report)
    assert report.first.kind == "value"
    golden("diff", report)


def test_a_program_that_writes_to_its_values_goes_on():
    def right(x):
        u = x * 2
        u += 1
        v = u * u
        return v.sum()

    def wrong(x):
        u = x * 3
        u += 1
        v = u * u * 2
        return v.sum()

    report = bp.diff_live(right, wrong)(X)
    assert [one.name for one in report.findings if one.direction == "forward"] == ["u#0", "v"], str(report)


def test_lower_precision_with_a_measured_floor_is_not_blamed_and_a_mistake_in_it_is():
    def f(x, w):
        h = x @ w
        a = torch.tanh(h)
        return (a * a).sum()

    def half(x, w):
        h = x.bfloat16() @ w.bfloat16()
        a = torch.tanh(h)
        return (a * a).sum()

    def wrong(x, w):
        h = x.bfloat16() @ w.bfloat16()
        a = torch.tanh(h) * 1.5
        return (a * a).sum()

    w = torch.linspace(-1, 1, 12).reshape(4, 3)
    noise = bp.noise_floor(f, precision="bfloat16")(X, w)
    assert not bp.diff_live(f, half, noise=noise)(X, w).findings
    assert bp.diff_live(f, wrong, noise=noise)(X, w).first.name == "a"


def test_arrays_of_numpy_are_given_to_functions_and_models():
    linear = nn.Linear(4, 2)
    bp.diff_live(linear, linear, of=torch.sum)(X.numpy()).assert_ok(strict=True)
    report = bp.diff_live(lambda x: (x * 2).sum(), lambda x: (x * 3).sum(), backend="torch")(np.ones(3, np.float32))
    assert report.ok is False


def test_options_and_targets_are_checked_as_those_of_a_probe():
    f = lambda x: x * 2
    golden("diff", message(bp.BadOption, lambda: bp.diff_live(f, f, backend=("torch",))))
    assert "bp.diff_live" in message(bp.BadOption, lambda: bp.diff_live(Block, f))
    assert "asked: bp.diff_live(f, f" in message(
        bp.NothingMatched, lambda: bp.diff_live(f, f, "nothing")(torch.tensor(1.0))
    )

    def raising(x):
        u = x * 2
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine") as caught:
        bp.diff_live(f, raising)(torch.tensor(1.0))
    assert "while running raising" in caught.value.__notes__[0]
    assert repr(bp.diff_live(f, linear := nn.Linear(1, 1))) == f"<bp.diff_live of <lambda> and {type(linear).__name__}>"


def test_a_line_that_got_the_firsts_values_has_the_floor_of_one_operation():
    def f(x, w):
        u = x * w
        a = torch.nn.functional.gelu(u)
        return a.sum()

    def g(x, w):
        u = x * w * 2
        a = torch.nn.functional.gelu(u, approximate="tanh")
        return a.sum()

    torch.manual_seed(0)
    x, w = torch.randn(8, 16), torch.randn(16)
    report = bp.diff_live(f, g)(x, w)
    assert [(one.name, one.direction) for one in report.findings][:2] == [("u", "forward"), ("a", "forward")]
