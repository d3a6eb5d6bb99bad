"""How well bp.check knows a slope, and how precisely a function computes."""

import numpy
import pytest
import torch

import backprobe as bp
from asked import well
from backprobe.check.differences import slope
from custom import custom
from goldens import golden
from sampled import sampled
from wrong_derivatives import Halved, numbers

# the slopes


def test_slopes_are_known_as_well_as_they_say():
    values = numpy.random.default_rng(0).normal(size=2000)

    def moved(step):
        return numpy.exp(3 * (values + step))

    found = slope(moved, moved(0.0), 2.0**-10, 2.0**-52)
    off = abs(found.value - 3 * moved(0.0))
    assert (off <= 10 * found.error).all()
    assert numpy.median(found.error / moved(0.0)) < 1e-9
    assert not found.is_kinked.any()


def test_noise_shows_in_the_error():
    noise = numpy.random.default_rng(0)

    def moved(step):
        return numpy.sin(1.0 + step + numpy.zeros(200)) + 1e-6 * noise.normal(size=200)

    found = slope(moved, moved(0.0), 2.0**-10, 2.0**-52)
    assert (abs(found.value - numpy.cos(1.0)) <= 10 * found.error).mean() > 0.99


# how precisely a function computes, and how differently its outputs move


def lower(dtype, factor):
    """A function that computes in a precision of its own and gives back what it was given, as many do."""

    Lower = custom(
        "Lower",
        lambda x: x.to(dtype).tanh().to(x.dtype) * x,
        lambda g, x: factor * g * (x.tanh() + x * (1 - x.tanh() ** 2)),
    )

    return Lower.apply


@pytest.mark.parametrize("size", [3, 50, 1000])
@pytest.mark.parametrize("factor", sampled([1.1, 1.5, 2.0], 1.1, 2.0))
def test_what_computes_in_single_precision_inside_is_judged(size, factor):
    bp.check(lambda x: lower(torch.float32, 1.0)(x))(numbers(size)).assert_ok(strict=True)
    (finding,) = bp.check(lambda x: lower(torch.float32, factor)(x))(numbers(size)).findings
    assert finding.error == pytest.approx(factor - 1, rel=0.1)


@pytest.mark.parametrize("factor", [1.001, 1.003, 1.005, 1.01])
@pytest.mark.parametrize("size", sampled([300, 1000, 5000], 300, 5000))
def test_an_error_that_is_near_the_noise_is_found_or_said(factor, size):
    assert bp.check(lambda x: lower(torch.float32, 1.0)(x))(numbers(size)).notes == ()
    report = bp.check(lambda x: lower(torch.float32, factor)(x))(numbers(size))
    if report.ok and report.complete:
        golden("check", report)
        assert report.error > 5e-4


def test_what_is_judged_coarsely_is_said():
    Far = custom("Far", lambda x: (x.float().tanh() + 10).to(x.dtype), lambda g, x: g * (1 - x.tanh() ** 2))

    report = well(bp.check(lambda x: Far.apply(x))(numbers(50)))
    (note,) = report.notes
    golden("check", note)


def test_a_mask_is_so_large_that_nothing_shows_at_it():
    mask = torch.tensor([[0.0, torch.finfo(torch.float32).min], [0.0, 0.0]])
    report = well(bp.check(lambda x: (x + mask).softmax(-1).sum(0))(numbers(2, 2)))
    (note,) = report.notes
    golden("check", note)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_what_computes_in_half_precision_inside_is_neither_blamed_nor_called_right(dtype, factor):
    report = bp.check(lambda x: lower(dtype, factor)(x))(numbers(50))
    assert (report.judged, len(report.findings), len(report.unjudged)) == (0, 0, 1)


def test_outputs_of_other_sizes_do_not_hide_each_other():
    Two = custom("Two", lambda x: (1e8 * x, 1e-6 * x), lambda g, h, x: g * 1e8 - h * 1e-6)

    Exponential = custom("Exponential", lambda x: x.exp(), lambda g, x: g * x.exp() * x.sign())

    def f(x):
        a, b = Two.apply(x)
        return a.sum() + b.sum()

    golden("check", bp.check(f)(numbers(4)).findings[0])
    x = torch.tensor([-12.0, -10.0, 10.0, 12.0, 14.0])
    (finding,) = bp.check(lambda x: Exponential.apply(x).sum())(x).findings
    assert (finding.kind, finding.name) == ("wrong_derivative", "return")
    golden("check", finding)


@pytest.mark.parametrize("weight", [torch.zeros(3, 3), torch.ones(3, 3), torch.eye(3)])
def test_a_custom_function_is_judged_at_symmetric_matrices_too(weight):
    Linear = custom("Linear", lambda x, w: x @ w, lambda g, x, w: (g @ w.T, (x.T @ g).T))

    (finding,) = bp.check(lambda x, w: Linear.apply(x, w).sum())(numbers(3, 3), weight).findings
    assert (finding.kind, finding.name) == ("wrong_derivative", "return")
    golden("check", finding)


def test_an_input_that_another_function_gives_is_not_named_as_an_argument_of_that():
    (finding,) = bp.check(lambda x: sum(map(Halved.apply, [x, 2 * x])))(numbers(3)).findings
    assert finding.input == "input 0"


def test_a_function_that_is_given_to_another_is_named_by_the_call_that_it_is_given_to():
    def apart(x):
        return sum(map(Halved.apply, torch.unbind(x * 2)))  # the last function that Python asks for is unbind

    (finding,) = bp.check(apart)(numbers(3)).findings
    assert "`map(Halved.apply, torch.unbind(x * 2))`" in finding.headline and "skip=[map]" in finding.remedy
