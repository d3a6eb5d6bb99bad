"""The ends of operands' ranges, against PyTorch itself; and the steps that lead to them."""

import math

import numpy as np
import pytest
import torch

from backprobe.explain.nonfinite.mechanism import CHECKS, POLES
from backprobe.provoke.risks import LARGEST, RESULT, RISKS, Goal, nearest_to
from backprobe.provoke.steps import corner, exact, far, newton, starts

FUNCTIONS = {
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "acos": torch.acos,
    "asin": torch.asin,
    "atanh": torch.atanh,
    "acosh": torch.acosh,
    "erfinv": torch.erfinv,
    "logit": torch.logit,
    "reciprocal": torch.reciprocal,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "exp2": torch.exp2,
    "cosh": torch.cosh,
    "sinh": torch.sinh,
    "square": torch.square,
    "entr": torch.special.entr,
}
NOT_OF_TORCH = {"gammaln"}  # the same as lgamma
OF_SEVERAL = {"div", "remainder", "floordiv", "xlogy", "pow", "norm", "std", "cdist", "hypot"}


def is_finite(function, number):
    x = torch.tensor(number, dtype=torch.float32, requires_grad=True)
    result = function(x)
    (gradient,) = torch.autograd.grad(result, x)
    return bool(result.isfinite() and gradient.isfinite())


def test_every_operation_of_one_operand_is_tried():
    assert RISKS.keys() == FUNCTIONS.keys() | NOT_OF_TORCH | OF_SEVERAL


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operation_is_finite_before_its_ends_and_not_at_them(name):
    for _, goal in RISKS[name](LARGEST["float32"], [None]):
        size = max(1.0, abs(goal.limit))
        inside = goal.limit + {"below": 1e-2, "above": -1e-2, "zero": 1e-2}[goal.side] * size
        beyond = goal.limit + {"below": -1e-6, "above": 1e-6, "zero": 0.0}[goal.side] * size
        at = goal.limit if name not in ("lgamma", "digamma") else 0.0
        assert is_finite(FUNCTIONS[name], inside)
        assert not is_finite(FUNCTIONS[name], at) or not is_finite(FUNCTIONS[name], beyond)


@pytest.mark.parametrize("exponent", [0.5, 1.5, -1, -2, -0.5, 2, 3, 2.5])
def test_the_ends_of_a_power(exponent):
    goals = [goal for _, goal in RISKS["pow"](LARGEST["float32"], [None, exponent])]
    for goal in goals:
        beyond = goal.limit * (1 + 1e-6) - {"below": 1e-6, "above": -1e-6, "zero": 0.0}[goal.side]
        assert not is_finite(lambda x: x**exponent, beyond)
    assert bool(exponent % 1 or exponent < 0) == any(goal.limit == 0 for goal in goals)


def test_the_ends_of_an_exponent():
    ((_, base), (at, goal)) = RISKS["pow"](LARGEST["float32"], [2.0, np.ones(3)])
    assert (base.side, at, goal.side) == ("below", 1, "above")
    assert goal.limit == pytest.approx(128)
    ((_, _), (_, goal)) = RISKS["pow"](LARGEST["float32"], [0.5, np.ones(3)])
    assert (goal.side, goal.limit) == ("below", pytest.approx(-128))
    assert len(RISKS["pow"](LARGEST["float32"], [np.ones(3), np.ones(3)])) == 1


def test_every_pole_that_explain_knows_is_searched():
    """But for those at 0 of both operands, and those that only Inf leads to."""
    left_out = {"atan2", "angle", "logsumexp", "mul", "add", "sub", "sin", "cos", "tan"}
    assert (CHECKS.keys() | POLES.keys()) - RISKS.keys() == left_out


def test_norms_break_by_their_result():
    assert [(at, goal.side) for at, goal in RISKS["norm"](LARGEST["float32"], [None])] == [(RESULT, "below")]


@pytest.mark.parametrize("dtype", LARGEST)
def test_the_largest_numbers(dtype):
    assert torch.finfo(getattr(torch, dtype)).max == pytest.approx(LARGEST[dtype], rel=1e-3)


def test_the_nearest_number_to_an_end():
    numbers = np.array([[3.0, -0.5], [np.nan, 2.0]])
    assert nearest_to(Goal("below"), numbers) == (1, -0.5, -0.5)
    assert nearest_to(Goal("above", 4.0), numbers) == (0, 3.0, 1.0)
    assert nearest_to(Goal("zero"), numbers) == (1, -0.5, 0.5)
    assert Goal("zero").slope(-0.5) == -1
    assert nearest_to(Goal("below"), np.array([np.nan]))[2] == np.inf


# steps


LOW, HIGH = np.full(3, -4.0), np.full(3, 4.0)


def test_a_step_of_newton_ends_a_linear_margin_with_the_least_change():
    row, slope = np.array([1.0, 2.0, -1.0]), np.array([1.0, -2.0, 2.0])
    new = newton(row, 3.0, slope, LOW, HIGH, 1.0)
    assert 3.0 + slope @ (new - row) == pytest.approx(0)
    np.testing.assert_allclose(new - row, -slope * 3 / 9)


def test_what_is_at_its_bound_leaves_the_rest_to_the_others():
    row, slope = np.array([-3.9, 0.0, 0.0]), np.array([10.0, 1.0, 0.0])
    new = newton(row, 3.0, slope, LOW, HIGH, 1.0)
    assert new[0] == -4.0
    assert 3.0 + slope @ (new - row) == pytest.approx(0)
    assert new[2] == 0


def test_slopes_that_underflow_when_squared_still_lead_somewhere():
    slope = np.array([1e-200, 0.0, 0.0])
    assert newton(np.zeros(3), 1e-200, slope, LOW, HIGH, 1.0)[0] == pytest.approx(-1)


def test_a_far_step_ends_an_exponential():
    """Of exp(x) at 0: the margin of a single precision number ends where exp rounds to 0."""
    low = np.array([-1000.0])
    new = far(np.zeros(1), 1.0, np.ones(1), low, np.zeros(1))
    assert math.exp(new[0]) < 1.4e-45


def test_a_corner():
    np.testing.assert_array_equal(corner(np.zeros(3), np.array([1.0, -1.0, 0.0]), LOW, HIGH), [-4, 4, 0])


def test_one_number_takes_what_rounding_the_others_leaves():
    row, slope = np.array([1.23456789, 0.3333333, 0.5]), np.ones(3)
    margin = row.sum() - 2
    sums = [one.sum() for one in exact(row, margin, slope, LOW, HIGH)]
    assert min(abs(total - 2) for total in sums) < 1e-12
    assert any(np.array_equal(one, np.round(row, 2)) for one in exact(row, margin, slope, LOW, HIGH))


def test_the_search_begins_at_the_example_and_stays_within_the_bounds():
    example = np.array([1.0, 3.0, 2.0])
    rows = list(starts(example, LOW, HIGH, [slice(0, 2), slice(2, 3)], np.random.default_rng(0)))
    np.testing.assert_array_equal(rows[0], example)
    assert any(np.array_equal(row, [2.0, 2.0, 2.0]) for row in rows)
    assert all((row >= LOW).all() and (row <= HIGH).all() for row in rows)
