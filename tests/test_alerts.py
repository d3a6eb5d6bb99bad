"""What ``run.alerts`` says: of planted faults, of healthy trainings, and of runs that are written here by numbers.

``python tests/alerts_page.py`` runs all the trainings; the tests here run one for each fault, and some healthy ones.
"""

import math
import re
from pathlib import Path

import numpy
import pytest
import torch

import backprobe as bp
from backprobe.record.exponents import exponents
from backprobe.record.statistics import measured
from backprobe.rules import alerts as judge
from backprobe.rules.rule import RULES
from backprobe.storage.runs.layout import RowKey, StepData
from goldens import golden
from trainings.torch._small import alerts, is_found, run
from trainings.torch.chosen import CHOSEN_FAULTS as FAULTS
from trainings.torch.chosen import CHOSEN_HEALTHY as HEALTHY
from trainings.torch.varied import VARIED_HEALTHY
from trainings.torch.varied_faults import VARIED_FAULTS
from written_runs import kinds, writer, written

PAGE = (Path(__file__).parent.parent / "docs" / "alerts.md").read_text()
ONE_OF_EACH = list({one.fault: one for one in reversed(FAULTS)}.values())
SOME = (
    "MLP, SGD",
    "MLP, warm-up",
    "residual, from zero",
    "CNN, BatchNorm",
    "transformer, norm after",
    "LoRA",
    "MLP, probabilities",
)

OTHER_FAULTS = (
    "initialisation × 50: U-Net",
    "initialisation × 0.01: VAE",
    "zero_grad is missing: GRU",
    "zero_grad is missing: ViT, clipped",
    "a branch that is detached: inference mode",
    "softmax twice: MLP",
    "learning rate / 1000: GRU, RMSprop",
    "weight decay of 10: ViT, AdamW",
    "weight decay of 10: GRU, Adam",
)
OTHERS = (
    "WGAN-GP",
    "regression, targets of 200, SGD",
    "MLP, one by one",
    "VAE, sums of pixels",
    "policy gradient",
    "experts",
    "stochastic depth",
    "regression, LBFGS",
    "sines",
)


def one_of_three(trainings):
    """One of three of them in ``make test``."""
    return [
        pytest.param(one, id=one.name, marks=[pytest.mark.sweep] * (at % 3 > 0)) for at, one in enumerate(trainings)
    ]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("training", ONE_OF_EACH, ids=lambda one: one.name)
def test_a_fault_is_found_in_the_first_tenth(training):
    report = alerts(training)
    assert is_found(training, report), report


@pytest.mark.parametrize("training", one_of_three(one for one in VARIED_FAULTS if one.name in OTHER_FAULTS))
def test_a_fault_of_another_kind_is_found_in_the_first_tenth(training):
    report = alerts(training)
    assert is_found(training, report), report


@pytest.mark.parametrize(
    "training",
    one_of_three(one for one in (*HEALTHY, *VARIED_HEALTHY) if one.name in (SOME if one in HEALTHY else OTHERS)),
)
def test_a_healthy_training_has_no_alert(training):
    report = alerts(training)
    assert report.ok, report


def named(name):
    return next(one for one in FAULTS if one.name == name)


def test_later_steps_change_no_alert(tmp_path):
    """While it is written a run says of each step what it says in the end."""
    with run(named("learning rate × 100: MLP, SGD"), tmp_path) as opened:
        whole = opened.alerts.findings
        assert {one.kind for one in whole} >= {"large_updates", "rising_loss", "nonfinite"}
        for until in (0, 2, 3, 7, 9, 40):
            found = judge(opened._reader, until).findings
            assert [(one.kind, one.step, one.number) for one in found] == [
                (one.kind, one.step, one.number) for one in whole if one.step <= until
            ]


def test_the_page_has_a_row_for_each_kind():
    listed = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    said = {kind for kind, rule in RULES.items() if rule.is_of_runs}
    assert listed == said
    assert {kind for one in FAULTS for kind in one.kinds} <= listed


# what is not one


def test_a_relu_below_one_is_not_a_saturated_sigmoid(tmp_path):
    """It is between 0 and 1 as a sigmoid is, and has zeros; attention may be sure of itself, and sums to 1."""
    for name, numbers in (("relu", (0.0,) * 30 + (0.95,) * 2), ("softmax", (1.0, *(0.0,) * 7) * 4)):
        with written(tmp_path / name, [("act", "value")], [[numbers]] * 8) as run:
            assert run.alerts.ok, name
    with written(tmp_path / "sigmoid", [("act", "value")], [[(1.0,) * 15 + (0.0,) * 16]] * 8) as run:
        assert kinds(run) == [("saturated", 3, "act")]


@pytest.mark.parametrize(("before", "is_said"), [(0.5, False), (0.0, True)])
def test_spikes_that_pass_gradients_on_are_no_saturated_sigmoid(tmp_path, before, is_said):
    """They are 0 and 1 alone, where a sigmoid would pass on nothing at all, and their step has another derivative."""
    keys = [("layer", "value"), ("layer", "grad"), ("spikes", "value"), ("spikes", "grad")]
    steps = [[(0.3, -0.2), (before, before), (1.0,) * 15 + (0.0,) * 16, (0.1,) * 31]] * 8
    with written(tmp_path, keys, steps) as run:
        assert bool(run.alerts.of_kind("saturated")) == is_said


def test_a_gate_that_begins_nearly_open_may_open(tmp_path):
    """What saturates is far from where it began: a gate that began at a slope of 0.18 is not."""
    steps = [[(0.955 + at / 1000,) * 9 + (0.94 + at / 1000,)] for at in range(30)]
    with written(tmp_path / "gate", [("gate", "value")], steps) as run:
        assert run.alerts.ok
    closing = [[(0.5,) * 10]] + [[(0.99,) * 9 + (0.98,)]] * 8
    with written(tmp_path / "act", [("act", "value")], closing) as run:
        assert kinds(run) == [("saturated", 4, "act")]


def test_a_warm_up_from_almost_nothing_is_not_small(tmp_path):
    keys = [("w", "param"), ("w", "update")]
    warm = [[(1.0,), (1e-7 * (1 + at),)] for at in range(100)]
    with written(tmp_path / "warm", keys, warm) as run:
        assert run.alerts.ok
    with written(tmp_path / "small", keys, [[(1.0,), (1e-5 if at else 1e-4,)] for at in range(100)]) as run:
        assert kinds(run) == [("small_updates", 19, "w")]
    with written(tmp_path / "nan", keys, [[(1.0,), (math.nan,)]] * 30) as run:
        assert "small_updates" not in [one.kind for one in run.alerts.findings]


def test_a_loss_around_zero_does_not_oscillate(tmp_path):
    around = [[((-1) ** at * (0.5 + 0.1 * at),)] for at in range(60)]
    with written(tmp_path, [("loss", "logged")], around) as run:
        assert "oscillating_loss" not in [one.kind for one in run.alerts.findings]


# runs that are written here


def test_an_alert_as_text(tmp_path):
    losses = [[(1.0,)], [(1.2,)]] * 20 + [[(2.75,)]] * 4
    with written(tmp_path, [("loss", "logged")], losses) as run:
        report = run.alerts
        assert [(one.kind, one.name) for one in report] == [("rising_loss", "loss")]
        golden("alerts", report)
        (found,) = report.findings
        assert isinstance(found, bp.Alert)
        assert (found.step, found.name, found.field, found.number, found.threshold) == (43, "loss", "logged", 2.5, 1.05)
        golden("alerts", repr(found))


def test_a_run_without_steps_has_no_alerts(tmp_path):
    with written(tmp_path, [], []) as run:
        golden("alerts", run.alerts)


def test_the_first_nan_forward_is_named(tmp_path):
    keys = [(name, kind) for name in ("a", "mask", "b") for kind in ("value", "grad")] + [("loss", "logged")]
    well = [(1.0,), (0.1,), (-math.inf, 1.0), (0.1,), (1.0,), (0.1,), (1.0,)]
    ill = [(1.0,), (math.nan,), (-math.inf, 1.0), (0.1,), (math.inf, 1.0), (math.nan,), (math.nan,)]
    with written(tmp_path / "value", keys, [well, well, ill, ill]) as run:
        (found,) = run.alerts.of_kind("nonfinite")
        assert (found.step, found.name, found.field, found.number) == (2, "b", "value.posinf", 1.0)
        golden("alerts", found)


def test_the_first_nan_backward_is_named(tmp_path):
    keys = [(name, kind) for name in ("a", "b", "c") for kind in ("value", "grad")]
    well = [(1.0,), (0.1,)] * 3
    ill = [(1.0,), (math.nan,), (1.0,), (math.nan, 2.0), (1.0,), (0.1,)]
    with written(tmp_path, keys, [well, ill]) as run:
        (found,) = run.alerts.of_kind("nonfinite")
        assert (found.step, found.name, found.facts[-1]) == (1, "b", "also: 'a'")


def test_what_a_scaler_skipped_is_not_alerted(tmp_path):
    keys = [("a", "value"), ("a", "grad")]
    with written(tmp_path, keys, [[(1.0,), (1.0,)], [(1.0,), (math.inf,)], [(1.0,), (1.0,)]], skip=[1]) as run:
        assert run.alerts.ok


@pytest.mark.parametrize("ill", [1, 2])
def test_a_scaler_makes_no_nan_of_values_nor_of_the_loss(tmp_path, ill):
    keys = [("a", "grad"), ("a", "value"), ("loss", "logged")]
    skipped = [(math.inf,), (1.0,), (1.0,)]
    skipped[ill] = (math.nan,)
    with written(tmp_path, keys, [[(1.0,)] * 3, skipped, [(1.0,)] * 3], skip=[1]) as run:
        assert kinds(run) == [("nonfinite", 1, keys[ill][0])]


def test_gradients_that_float16_cannot_hold(tmp_path):
    random = numpy.random.default_rng(0)
    gradient = (random.normal(size=4000) * 1e-6).astype(numpy.float16).astype(numpy.float64)
    for name, numbers, found in (("float16", gradient, ["underflow"]), ("float32", gradient * 1.1, [])):
        one = writer(tmp_path / name)
        one.add_rows([RowKey("a", "grad")])
        matrix = numpy.array([measured(numbers)]).T
        one.append(StepData(0, matrix, exponents={0: exponents(numbers)}))
        one.close()
        with bp.open_run(tmp_path / name) as run:
            assert [one.kind for one in run.alerts.findings] == found


def test_of_several_losses_none_is_checked(tmp_path):
    steps = [[(1.0,), (1.0,)]] * 4 + [[(9.0,), (9.0,)]] * 4
    with written(tmp_path / "two", [("loss_d", "logged"), ("loss_g", "logged")], steps) as run:
        assert run.alerts.ok
        assert "no loss was logged" in run.alerts.notes[-1]
    with written(tmp_path / "one", [("loss_d", "logged"), ("lr", "logged")], steps) as run:
        assert kinds(run) == [("rising_loss", 7, "loss_d")]


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_first_loss_is_nothing_to_compare_with(tmp_path, seed):
    """Squares of one sample each: the first may be a hundredth of their mean."""
    errors = numpy.random.default_rng(seed).chisquare(1, 300)
    for name, first in (("small", 0.01), ("large", 20.0)):
        with written(tmp_path / name, [("loss", "logged")], [[(one,)] for one in (first, *errors)]) as run:
            assert not run.alerts.of_kind("rising_loss")


def test_a_loss_that_jumps_and_stays_up_is_found_whatever_it_was_at_first(tmp_path):
    """It had fallen from 4 to 1.1, and a learning rate times 30 brings it to 2.8."""
    random = numpy.random.default_rng(0)
    before = 1.1 + 2.9 * numpy.exp(-numpy.arange(100) / 15) + 0.3 * random.normal(size=100)
    after = 2.8 + 0.5 * random.normal(size=40)
    for name, losses in (("jump", [*before, *after]), ("one", [*before, 2.8, 2.9, *before[60:]])):
        with written(tmp_path / name, [("loss", "logged")], [[(one,)] for one in losses]) as run:
            found = run.alerts.of_kind("rising_loss")
            assert (name == "jump") == bool(found)
            assert all(100 < one.step < 110 for one in found)


def test_a_loss_that_rises_as_slowly_as_before_does_not_jump(tmp_path):
    """That of an adversary, or of values that are learned from themselves."""
    random = numpy.random.default_rng(0)
    noise, at = 0.05 * random.normal(size=400), numpy.arange(400)
    turning = -0.5 + ((at - 80) / 80) ** 2
    for name, losses in (("line", 0.5 + at / 160), ("turns", turning)):
        with written(tmp_path / name, [("loss", "logged")], [[(one,)] for one in losses + noise]) as run:
            assert not run.alerts.of_kind("rising_loss")


def test_a_loss_that_has_fallen_may_stay(tmp_path):
    losses = [[(max(0.2, 3 - 0.2 * at),)] for at in range(2000)]
    with written(tmp_path / "fell", [("loss", "logged")], losses) as run:
        assert run.alerts.ok
    with written(tmp_path / "flat", [("loss", "logged")], [[(0.7,)]] * 120) as run:
        assert kinds(run) == [("flat_loss", 99, "loss")]


def test_frozen_parameters_are_meant_and_those_without_an_optimizer_are_not(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD([*model[0].parameters(), *model[2].parameters()], lr=0.1)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        for x in torch.randn(8, 5, 3):
            model(x).square().mean().backward()
            optimizer.step()
            model.zero_grad()
    with bp.open_run(tmp_path) as run:
        assert kinds(run) == [("left_out", 0, "1.weight")]
        assert run.alerts.findings[0].facts[-1] == "also: '1.bias'"


@pytest.mark.parametrize("is_told", [False, True])
def test_what_is_unfrozen_later_needs_an_optimizer(tmp_path, is_told):
    """Its gradients add up, since ``optimizer.zero_grad()`` does not know it: that is no second fault."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        for step, x in enumerate(torch.randn(20, 5, 3)):
            if step == 8:
                model[0].requires_grad_(True)
                optimizer.add_param_group({"params": list(model[0].parameters())}) if is_told else None
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    with bp.open_run(tmp_path) as run:
        assert kinds(run) == ([] if is_told else [("left_out", 12, "0.weight")])
        assert is_told or run.alerts.findings[0].headline.endswith(
            "no optimizer trains it: 2 parameters that were frozen"
        )


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_zero_gradient_beside_that_of_the_bias_leads_to_the_input(tmp_path, is_cut):
    """Zeros go into the last layer; or nothing comes back to it, from a certain step on."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    torch.nn.init.constant_(model[0].bias, 0.0 if is_cut else -50.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        for step, x in enumerate(torch.randn(16, 8, 3)):
            optimizer.zero_grad()
            (model(x) * (0.0 if is_cut and step > 6 else 1.0) + 1).square().mean().backward()
            optimizer.step()
    with bp.open_run(tmp_path) as run:
        zero = [one for one in run.alerts if one.kind == "zero_gradient"]
    assert all("its bias has a gradient" not in one.remedy for one in zero) if is_cut else zero[0].name == "2.weight"
    assert is_cut or zero[0].remedy.startswith("what goes into '2': its bias has a gradient")


# gradients that nobody clears


def trained_with(folder, clear, make=None, optimizers=1, order=(0, 1), steps=8):
    """Two linear models whose losses go through both, trained in turn; ``clear`` is called before each backward."""
    torch.manual_seed(0)
    model = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)])
    both = (
        [torch.optim.SGD(one.parameters(), lr=0.01) for one in model]
        if optimizers == 2
        else [torch.optim.SGD(model.parameters(), lr=0.01)]
    )
    labels = torch.arange(8) % 3
    with bp.watch(model, folder, optimizer=[both[at] for at in order[: len(both)]]):
        for x in torch.randn(steps, 8, 4):
            for at in order[: len(both)]:
                clear(both[at], model)
                torch.nn.functional.cross_entropy(model[1](model[0](x)), labels).backward()
                if make is not None:
                    make(model)
                both[at].step()
    return bp.open_run(folder)


def nothing(optimizer, model):
    """It is forgotten."""


def by_data(optimizer, model):
    for one in model.parameters():
        if one.grad is not None:
            one.grad.data.zero_()


def clip(model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


@pytest.mark.parametrize("make", [None, clip])
def test_gradients_that_are_never_cleared(tmp_path, make):
    """The last layer has no module behind it, and its bias has a gradient that sums to zero."""
    with trained_with(tmp_path, nothing, make) as run:
        (found,) = run.alerts.of_kind("accumulated")
        assert (found.step, found.name, found.number, found.field) == (3, "", 4.0, "uncleared")
        golden("alerts", found)


@pytest.mark.parametrize(
    "clear", [lambda one, model: one.zero_grad(), lambda one, model: one.zero_grad(set_to_none=False), by_data]
)
@pytest.mark.parametrize("order", [(0,), (0, 1), (1, 0)])
def test_gradients_that_are_cleared_in_time(tmp_path, clear, order):
    """Each loss goes through the other model as well, whose gradients are cleared before it steps."""
    with trained_with(tmp_path, clear, optimizers=len(order), order=order) as run:
        assert not run.alerts.of_kind("accumulated")


# a training that stands still


def watched(folder, body, steps=60, optimizers=None, **options):
    """A regression of two layers; ``body`` runs in each step, between ``backward()`` and the end."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    both = (optimizers or (lambda model: [torch.optim.SGD(model.parameters(), lr=0.02)]))(model)
    with bp.watch(model, folder, optimizer=both, **options) as run:
        for at, x in enumerate(torch.randn(steps, 8, 4)):
            loss = body(at, (model(x) - x[:, :1]).square().mean(), both)
            run.log(loss=loss)
            for one in both:
                one.zero_grad()
    return bp.open_run(folder)


def halves(model):
    return [torch.optim.SGD(part.parameters(), lr=0.02) for part in (model[0], model[2])]


@pytest.mark.parametrize("begins", [0, 30])
def test_an_optimizer_that_does_not_step(tmp_path, begins):
    def body(at, loss, optimizers):
        loss.backward()
        if at < begins:
            optimizers[0].step()
        return loss

    with watched(tmp_path, body) as run:
        assert kinds(run) == [("no_step", begins, "")]
        assert "optimizer.step()" in run.alerts.findings[0].remedy
        assert [(one.kind, one.steps) for one in run.gaps][-1:] == [("open", (begins,))]
        assert not run.skipped.size


@pytest.mark.parametrize("begins", [0, 20])
def test_the_first_of_two_optimizers_that_does_not_step(tmp_path, begins):
    def body(at, loss, optimizers):
        loss.backward()
        for one in optimizers if at < begins else optimizers[1:]:
            one.step()
        return loss

    with watched(tmp_path, body, optimizers=halves) as run:
        assert kinds(run) == [("no_step", begins + 19, "0.weight")]


@pytest.mark.parametrize("begins", [0, 20])
def test_the_last_of_two_optimizers_that_does_not_step(tmp_path, begins):
    def body(at, loss, optimizers):
        loss.backward()
        for one in optimizers if at < begins else optimizers[:1]:
            one.step()
        return loss

    with watched(tmp_path, body, optimizers=halves) as run:
        assert kinds(run) == [("no_step", begins + 19, "2.weight")]  # and nothing is said of the first
        assert run.steps.size == 60 - 7  # eight steps of the first are waited for, once
        assert "open" not in {one.kind for one in run.gaps}
        assert not any("take turns" in one for one in run.alerts.notes)


def test_a_last_step_that_one_of_two_optimizers_makes_is_no_open_one(tmp_path):
    def body(at, loss, optimizers):
        loss.backward()
        if at % 6 == 0:
            optimizers[0].step()
        return loss

    with watched(tmp_path, body, steps=30, optimizers=halves) as run:
        assert not run.alerts.of_kind("no_step") and run.steps.tolist() == [0]


def test_a_last_optimizer_that_steps_later_ends_the_steps_again(tmp_path):
    def body(at, loss, optimizers):
        loss.backward()
        for one in optimizers if at >= 20 else optimizers[:1]:
            one.step()
        return loss

    with watched(tmp_path, body, steps=40, optimizers=halves) as run:
        stepped = run.series("2.weight", "param.rms")[0].tolist()
        assert run.steps.tolist() == list(range(33))
        assert stepped == list(range(14, 33))  # the first had ended step 13, as the last stepped for the first time


def test_an_optimizer_that_steps_in_every_fifth_round_does(tmp_path):
    def body(at, loss, optimizers):
        loss.backward()
        if at % 5 == 4:
            optimizers[0].step()
        return loss

    with watched(tmp_path, body) as run:
        assert run.steps.size == 12 and not run.alerts.of_kind("no_step")


@pytest.mark.parametrize("sign", [1, -1])
def test_a_loss_with_a_wrong_sign(tmp_path, sign):
    def body(at, loss, optimizers):
        (sign * loss).backward()
        optimizers[0].step()
        return sign * loss

    with watched(tmp_path, body) as run:
        assert bool(run.alerts.of_kind("falling_loss")) == (sign == -1)


def cleared(loss, optimizer):
    loss.backward()
    optimizer.zero_grad()


def zeroed(loss, optimizer):
    loss.backward()
    optimizer.zero_grad(set_to_none=False)


def cancelled(loss, optimizer):
    loss.backward(retain_graph=True)
    (-loss).backward()


def of_nothing(loss, optimizer):
    (loss * 0).backward()


@pytest.mark.parametrize("back", [cleared, zeroed, cancelled, of_nothing])
def test_gradients_of_which_nothing_is_left(tmp_path, back):
    def body(at, loss, optimizers):
        (loss.backward() if at < 30 else back(loss, optimizers[0]))
        optimizers[0].step()
        return loss

    with watched(tmp_path, body) as run:
        found = run.alerts.of_kind("zero_gradients")
        assert [one.step for one in found] == [34]
        assert ("come to what modules return" in found[0].headline) == (back is not of_nothing)


def test_parameters_that_no_longer_change(tmp_path):
    def body(at, loss, optimizers):
        loss.backward()
        optimizers[0].param_groups[0]["lr"] = 0.02 if at < 30 else 1e-12
        optimizers[0].step()
        return loss

    with watched(tmp_path, body) as run:
        (found,) = run.alerts.of_kind("unchanged")
        assert found.step == 39 and "no parameter changes" in found.headline
