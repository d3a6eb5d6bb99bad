"""What bp.check says of calls is true of them: kinks, outputs that are too large, other outputs, and of the whole."""

import pytest
import torch
from torch.func import functional_call, grad, jacrev, vmap

import backprobe as bp
from asked import Parts, well
from custom import custom
from wrong_derivatives import numbers

# sums of terms that cancel are rounded as their terms are, and have no kink


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "build",
    [
        lambda: (torch.nn.Linear(256, 512), (64, 256)),
        lambda: (torch.nn.Conv2d(16, 32, 3), (2, 16, 14, 14)),
        lambda: (torch.nn.Bilinear(24, 24, 400), (30, 24)),
    ],
)
def test_a_linear_layer_has_no_kink(build, seed):
    torch.manual_seed(seed)
    layer, shape = build()

    class Model(Parts):
        def forward(self, x):
            return self.layer(*[x] * (1 + isinstance(self.layer, torch.nn.Bilinear)))

    report = bp.check(Model(layer=layer))(torch.randn(shape))
    assert report.ok and report.complete and report.notes == ()


def test_terms_that_are_much_larger_than_their_sum_have_none_either():
    def f(x):
        return (x + 1e6) - 1e6

    assert well(bp.check(f)(numbers(300))).notes == ()


def test_a_kink_among_terms_that_cancel_is_still_one():
    Kinked = custom("Kinked", lambda x, w: x.abs() @ w, lambda g, x, w: (x.sign() * (w @ g), x.abs().outer(g)))

    x = numbers(256)
    x[7] = 0
    (note,) = bp.check(lambda x, w: Kinked.apply(x, w))(x, torch.randn(256, 50)).notes
    assert "not checked, it is at a kink" in note


# outputs that do not move


@pytest.mark.parametrize(
    "flat",
    [
        lambda x: x.clamp(0, 1),
        lambda x: x.clamp(0, 1e3),
        lambda x: torch.nn.functional.hardtanh(x, -50.0, 50.0) * 20,
        lambda x: torch.where(x > 0, 1000.0, x),
    ],
)
@pytest.mark.parametrize("x", [[3e3, -1.0, 4e3], [3e3, 0.5, -0.5]])
def test_an_output_that_does_not_move_is_compared(flat, x):
    report = well(bp.check(flat)(torch.tensor(x)))
    assert "so large" not in str(report) and report.ok and report.complete


@pytest.mark.parametrize("x", [[3.0, 2.0], [3.0, 0.25]])
def test_a_gradient_through_an_output_that_does_not_move_is_found(x):
    Clamped = custom("Clamped", lambda x: x.clamp(0, 1), lambda g, x: g)

    (finding,) = bp.check(lambda x: Clamped.apply(x))(torch.tensor(x)).findings
    assert "the outputs do not change with this input at all" in finding.facts or "elements" in str(finding.facts)


def test_what_is_lost_in_rounding_is_left_out_where_nothing_else_moves_too():
    report = bp.check(lambda x: torch.where(x > 0, -3e38, 1.0))(torch.tensor([1.0, -1.0]))
    assert not report.findings


@pytest.mark.parametrize("power", [lambda x: x * x, lambda x: x**3, lambda x: (x.sin() * x).sum()])
def test_products_of_zeros_are_compared(power):
    report = bp.check(power)(torch.zeros(3))
    assert report.ok and report.complete and report.notes == ()


def test_a_wrong_derivative_at_zero_is_found():
    Square = custom("Square", lambda x: x * x, lambda g, x: g * (2 * x + 0.5))

    (finding,) = bp.check(lambda x: Square.apply(x))(torch.zeros(3)).findings
    assert finding.error == float("inf")


# functional_call puts tensors into a module that a call reaches by itself

LAYER = torch.nn.Linear(2, 2)
NET = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3, track_running_stats=False), torch.nn.Tanh())
ROWS = numbers(5, 2)


def per_sample(w):
    one = grad(lambda p, x: functional_call(LAYER, p, (x[None],)).square().sum())
    return vmap(one, in_dims=(None, 0))({"weight": w}, ROWS)["weight"].square().sum()


def jacobian(w):
    return jacrev(lambda p: functional_call(NET, {"0.weight": p}, (ROWS.to(p),)).sum(0))(w).square().sum()


def curvature(w):
    slope = grad(lambda p: functional_call(LAYER, {"weight": p}, (ROWS.to(p),)).square().sum())
    return jacrev(lambda p: slope(p)[0])(w).square().sum() * w.sum()


@pytest.mark.parametrize(("program", "rows"), [(per_sample, 2), (jacobian, 3), (curvature, 2)])
def test_a_functional_call_in_a_transform_is_made_again(program, rows):
    models = LAYER, NET
    before = [(parameter, parameter.detach().clone()) for model in models for parameter in model.parameters()]
    report = bp.check(program)(numbers(rows, 2))
    assert "other outputs" not in str(report) and "it raises" not in str(report)
    assert report.ok and not any("not checked," in note for note in report.notes)
    after = [parameter for model in models for parameter in model.parameters()]
    assert all(one is own and torch.equal(one, value) for one, (own, value) in zip(after, before, strict=True))


# calls by themselves, and the whole


def reciprocal(x):
    return torch.where(x == 1, x, 1 / x)


def sinc(x):
    small = x.abs() < 1e-12
    return torch.where(small, 1 + x, x.sin() / torch.where(small, torch.ones_like(x), x))


def halves(x):
    return x * 2 if x == 3 else x * x - x * 1.0


@pytest.mark.parametrize(("program", "at"), [(reciprocal, 1.0), (sinc, 0.0), (halves, 3.0)])
def test_only_calls_are_said_to_be_right(program, at):
    report = bp.check(program)(torch.tensor(at))
    assert not report.findings
    assert report.heading.startswith(f"{program.__name__}: taken by itself, each call ")
