"""What chance, a minimum or a constant does is not alerted, and what is sure is said as soon as it is."""

import math

import numpy
import pytest

from written_runs import kinds, written

WEIGHTS = [("w", "grad"), ("w", "param"), ("loss", "logged")]


def own(folder, steps):
    """A run of a parameter: its gradient, itself, and the loss."""
    return written(folder, WEIGHTS, steps)


def tied_runs(correlation, count):
    """Losses below 0 that fall, and norms of gradients that grow with it, as far as a correlation says."""
    random = numpy.random.default_rng(0)
    shared, noise = random.normal(size=(2, count))
    loss = -9 + shared - 4 * numpy.arange(count) / count
    size = 9 - correlation * shared + math.sqrt(1 - correlation**2) * noise + 4 * numpy.arange(count) / count
    return [[(one,), (other,)] for one, other in zip(size, loss, strict=True)]


@pytest.mark.parametrize(("correlation", "count", "is_said"), [(0.88, 60, True), (0.7, 14, False), (0.3, 60, False)])
def test_a_wrong_sign_is_said_as_soon_as_the_correlation_is_sure(tmp_path, correlation, count, is_said):
    """Of 60 steps one of -0.88 is enough, and of 14 one of -0.7 is not."""
    with written(tmp_path, [("return", "grad"), ("loss", "logged")], tied_runs(correlation, count)) as run:
        assert bool(run.alerts.of_kind("falling_loss")) == is_said


@pytest.mark.parametrize(("least", "is_said"), [(1e-1, True), (1e-6, False)])
def test_a_parameter_at_a_minimum_may_stay(tmp_path, least, is_said):
    """As with L-BFGS, which steps no longer: its gradients are a millionth of what they were."""
    steps = [[(1.0, -1.0), (1.0 + at,), (1.0,)] for at in range(30)] + [[(least, -least), (31.0,), (0.5,)]] * 30
    with own(tmp_path, steps) as run:
        assert bool(run.alerts.of_kind("unchanged")) == is_said


@pytest.mark.parametrize(("last", "is_said"), [((1e-9, -2e-9), True), ((1e-9, 2e-9), False)])
def test_a_loss_of_both_signs_is_no_minimum(tmp_path, last, is_said):
    """Samples that cancel leave what rounding does, to the loss as to the gradients."""
    random = numpy.random.default_rng(0)
    steps = [[(one, -one), (1.0 + at,), (one,)] for at, one in enumerate(random.uniform(1, 2, 30))]
    steps += [[(1e-8, -1e-8), (31.0 + at,), (last[at % 2],)] for at in range(10)]
    with own(tmp_path, steps) as run:
        assert kinds(run) == [("zero_gradients", 34, "w")] * is_said


@pytest.mark.parametrize(("bias", "is_said"), [("b", False), ("bias", False), ("scale", True)])
def test_a_bias_that_a_difference_takes_away_has_no_gradient(tmp_path, bias, is_said):
    """That of a critic: whatever its weights are called."""
    keys = [(name, kind) for kind in ("grad", "param") for name in ("d.w", f"d.{bias}")]
    with written(tmp_path, keys, [[(1.0, 2.0), (0.0,), (1.0 + at,), (1.0,)] for at in range(9)]) as run:
        assert bool(run.alerts.of_kind("zero_gradient")) == is_said


@pytest.mark.parametrize(("numbers", "is_said"), [((1.0,) * 16, False), ((1.0,) * 15 + (0.999,), True)])
def test_a_constant_is_no_saturated_sigmoid(tmp_path, numbers, is_said):
    """The ratio of a policy to itself is 1."""
    with written(tmp_path, [("ratio", "value")], [[numbers]] * 8) as run:
        assert bool(run.alerts.of_kind("saturated")) == is_said


@pytest.mark.parametrize(("losses", "is_said"), [((5.0, 4.0, 3.0, 2.0), False), ((5.0, 4.0, 6.0, 2.0), True)])
def test_updates_of_which_each_makes_the_loss_smaller_are_not_too_large(tmp_path, losses, is_said):
    steps = [[(2.0,), (1.0,), (loss,)] for loss in losses]
    with written(tmp_path, [("w", "param"), ("w", "update"), ("loss", "logged")], steps) as run:
        assert bool(run.alerts.of_kind("large_updates")) == is_said


@pytest.mark.parametrize(("count", "is_said"), [(8, False), (200, True)])
def test_eight_weights_may_shrink_by_chance(tmp_path, count, is_said):
    """A cosine of -0.6 is within what chance gives eight numbers, and not within what it gives two hundred."""
    weights, steps = numpy.ones(count), []
    for _ in range(12):
        size, beside = numpy.linalg.norm(weights), numpy.resize([1.0, -1.0], count)
        beside = beside - weights * (beside @ weights) / size**2
        update = 0.05 * (0.8 * size * beside / numpy.linalg.norm(beside) - 0.6 * weights)
        weights = weights + update
        steps.append([tuple(weights), tuple(update)])
    with written(tmp_path, [("w", "param"), ("w", "update")], steps) as run:
        assert bool(run.alerts.of_kind("shrinking_weights")) == is_said


def test_one_outlier_in_a_loss_is_no_oscillation(tmp_path):
    """Of a batch of ratings: the window that has it is compared with another, and by three standard errors."""
    losses = [2.5, 5.3, 1.9, 1.3, 2.4, 3.6, 1.8, 2.9, 3.7, 2.9, 4.0, 3.0, 10.0, 3.3, 5.4, 6.3, 3.3, 4.7, 2.5, 1.3, 2.6]
    with written(tmp_path, [("loss", "logged")], [[(one,)] for one in losses]) as run:
        assert not run.alerts.of_kind("oscillating_loss")


def test_a_rise_that_is_steady_is_no_jump(tmp_path):
    """That of an adversary which turns: two means are no better than a line."""
    random, at = numpy.random.default_rng(8), numpy.arange(200)
    steady, step = ((at - 70) / 70) ** 2 - 0.4, numpy.where(at < 90, 0.5, 1.0)
    for name, losses in (("steady", steady + 0.02 * random.normal(size=200)), ("step", step)):
        with written(tmp_path / name, [("loss", "logged")], [[(one,)] for one in losses]) as run:
            assert bool(run.alerts.of_kind("rising_loss")) == (name == "step")


@pytest.mark.parametrize(("optimizers", "is_said"), [(["Adam", "Adam"], False), (["Adam"], True)])
def test_of_optimizers_that_take_turns_no_loss_is_a_measure(tmp_path, optimizers, is_said):
    """That of a generator is flat as long as the critic learns as fast; one that gathers batches is judged."""
    losses = [[(0.7,)]] * 120
    with written(tmp_path, [("loss", "logged")], losses, optimizers=optimizers, backwards=2) as run:
        assert kinds(run) == [("flat_loss", 99, "loss")] * is_said
        assert any("take turns" in one for one in run.alerts.notes) == (not is_said)
