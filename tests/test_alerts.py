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
from backprobe.alerts import alerts as judge
from backprobe.record.exponents import exponents
from backprobe.record.statistics import COLUMNS, NOTHING, measured
from backprobe.storage.runs.layout import RowKey, StepData
from goldens import golden
from judged_trainings import FAULTS, HEALTHY, alerts, is_found, run
from varied_faults import VARIED_FAULTS
from varied_trainings import VARIED_HEALTHY
from written_runs import writer

PAGE = (Path(__file__).parent.parent / "docs" / "alerts.md").read_text()
ONE_OF_EACH = list({one.fault: one for one in reversed(FAULTS)}.values())
SOME = ("MLP, SGD", "MLP, warm-up", "residual, from zero", "CNN, BatchNorm", "transformer, norm after", "LoRA",
        "MLP, probabilities")  # fmt: skip

OTHER_FAULTS = ("initialisation × 50: U-Net", "initialisation × 0.01: VAE", "zero_grad is missing: GRU",
                "zero_grad is missing: ViT, clipped", "a branch that is detached: inference mode", "softmax twice: MLP",
                "learning rate / 1000: GRU, RMSprop", "weight decay of 10: ViT, AdamW",
                "weight decay of 10: GRU, Adam")  # fmt: skip
OTHERS = ("WGAN-GP", "regression, targets of 200, SGD", "MLP, one by one", "VAE, sums of pixels", "policy gradient",
          "experts", "stochastic depth", "regression, LBFGS", "sines")  # fmt: skip


def one_of_three(trainings):
    """One of three of them in ``make test``."""
    return [
        pytest.param(one, id=one.name, marks=[pytest.mark.sweep] * (at % 3 > 0)) for at, one in enumerate(trainings)
    ]  # fmt: skip


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


@pytest.mark.parametrize("training", one_of_three(
    one for one in (*HEALTHY, *VARIED_HEALTHY) if one.name in (SOME if one in HEALTHY else OTHERS)
))  # fmt: skip
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
    source = "".join(one.read_text() for one in (Path(bp.__file__).parent / "alerts").glob("*.py"))
    said = set(re.findall(r'alert\(\s*"(\w+)"', source)) | {"vanishing", "exploding", "large_updates", "small_updates"}
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


def row(*numbers):
    return measured(numpy.array(numbers, numpy.float64))


def written(folder, keys, steps, **facts):
    """A run of these rows: for each step the numbers of each, None for none."""
    one = writer(folder, **facts)
    one.add_rows([RowKey(*key) for key in keys])
    for at, step in enumerate(steps):
        rows = [NOTHING if numbers is None else row(*numbers) for numbers in step]
        one.append(
            StepData(at, numpy.array(rows).reshape(len(rows), len(COLUMNS)).T, skipped=at in facts.get("skip", ()))
        )
    one.close()
    return bp.open_run(folder)


def kinds(run):
    return [(one.kind, one.step, one.name) for one in run.alerts.findings]


def test_an_alert_as_text(tmp_path):
    losses = [[(1.0,)], [(1.1,)], [(2.5,)], [(3.0,)]]
    with written(tmp_path, [("loss", "logged")], losses) as run:
        report = run.alerts
        assert [(one.kind, one.name) for one in report] == [("rising_loss", "loss")]
        golden("alerts", report)
        (found,) = report.findings
        assert isinstance(found, bp.Alert)
        assert (found.step, found.name, found.field, found.number, found.threshold) == (3, "loss", "logged", 3.0, 2.0)
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
    steps = [[(1.0,), (1.0,)], [(9.0,), (9.0,)], [(9.0,), (9.0,)]]
    with written(tmp_path / "two", [("loss_d", "logged"), ("loss_g", "logged")], steps) as run:
        assert run.alerts.ok
        assert "no loss was logged" in run.alerts.notes[-1]
    with written(tmp_path / "one", [("loss_d", "logged"), ("lr", "logged")], steps) as run:
        assert kinds(run) == [("rising_loss", 2, "loss_d")]


def test_a_loss_that_has_fallen_may_stay(tmp_path):
    losses = [[(max(0.2, 3 - 0.2 * at),)] for at in range(2000)]
    with written(tmp_path / "fell", [("loss", "logged")], losses) as run:
        assert run.alerts.ok
    with written(tmp_path / "flat", [("loss", "logged")], [[(0.7,)]] * 120) as run:
        assert kinds(run) == [("flat_loss", 100, "loss")]


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
