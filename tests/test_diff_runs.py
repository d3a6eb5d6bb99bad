"""Two trainings compared: the first step and name at which they part."""

import inspect
import json
import math
from contextlib import ExitStack
from typing import get_overloads

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message
from commands import invoked, printed
from goldens import golden
from watched import ALL, Net, batches, sgd


def trained(folder, *, seed=0, lr=0.1, steps=range(50), fault=None, model=None, what=ALL, **options):
    torch.manual_seed(seed)
    model = model or Net()
    optimizer = sgd(model, lr=lr)
    with bp.watch(model, folder, optimizer=optimizer, what=what, **options) as run:
        for step in steps:
            loss = model(batches(50)[step]).square().mean()
            loss.backward()
            if fault is not None:
                fault(step, model)
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)
    return folder


def test_a_training_agrees_with_the_same_one(tmp_path):
    a, b = trained(tmp_path / "a"), trained(tmp_path / "b")
    report = bp.diff(a, b)
    assert report.ok and report.complete and report.first is None and report.findings == ()
    assert report.heading.startswith("no difference in 50 steps of ")
    with bp.open_run(a) as first, bp.open_run(b) as second:
        assert bp.diff(first, second).ok and bp.diff(first, str(b)).ok
        assert len(first.steps) == 50  # an open run stays open


def test_another_seed_parts_at_the_first_value(tmp_path):
    first = bp.diff(trained(tmp_path / "a"), trained(tmp_path / "b", seed=1)).first
    assert (first.step, first.name, first.kind) == (0, "embed", "value")


def test_another_learning_rate_parts_at_the_first_update(tmp_path):
    report = bp.diff(trained(tmp_path / "a"), trained(tmp_path / "b", lr=0.11))
    first = report.first
    assert (first.step, first.kind, first.field) == (0, "update", "update.rms")
    assert first.numbers[1] / first.numbers[0] == pytest.approx(1.1, rel=1e-4)
    assert first.error == pytest.approx(0.1, rel=1e-3)
    golden("diff", report)
    golden("diff", first)


def test_a_fault_at_step_40_is_found_there(tmp_path):
    def half(step, model):
        if step == 40:
            model.body[0].weight.grad *= 0.5

    report = bp.diff(trained(tmp_path / "a"), trained(tmp_path / "b", fault=half))
    assert (report.first.step, report.first.name, report.first.field) == (40, "body.0.weight", "grad.rms")
    golden("diff", report.first)
    parts = {(row["name"], row["kind"]): row["parts_at"] for row in report.to_dict()["rows"]}
    assert parts["body.0.weight", "update"] == 40 and parts["embed", "value"] in (None, *range(41, 50))
    json.dumps(report.to_dict(), allow_nan=False)
    assert str(report).startswith(report.heading) and "body.0.weight" in report._repr_html_()


def test_a_nan_is_a_difference_in_counts_and_equal_where_both_have_it(tmp_path):
    def spoilt(step, model):
        if step == 7:
            model.head.weight.grad[0, 0] = torch.nan

    a, b = trained(tmp_path / "a", fault=spoilt), trained(tmp_path / "b", fault=spoilt)
    bp.diff(a, b).assert_ok(strict=True)
    first = bp.diff(trained(tmp_path / "c"), a).first
    assert (first.step, first.name) == (7, "head.weight") and first.field in ("grad.nan", "grad.finite")


def test_a_resumed_training_is_one_run(tmp_path):
    torch.manual_seed(0)
    model = Net()
    trained(tmp_path / "b", model=model, steps=range(20))
    trained(tmp_path / "b", model=model, steps=range(20, 50))
    report = bp.diff(trained(tmp_path / "a"), tmp_path / "b")
    report.assert_ok(strict=True)
    assert not bp.diff(trained(tmp_path / "c", steps=range(30)), tmp_path / "b").complete


def test_renames_lead_to_the_other_names(tmp_path):
    class Renamed(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            one = Net()
            self.start, self.layers, self.head = one.embed, one.body, one.head

        def forward(self, x):
            return self.head(self.layers(self.start(x)))

    a, b = trained(tmp_path / "a"), trained(tmp_path / "b", model=Renamed())
    report = bp.diff(a, b)
    assert report.ok and not report.complete and "embed.weight" in report.only_a and "start.weight" in report.only_b
    bp.diff(a, b, rename={"embed": "start", "body": "layers"}).assert_ok(strict=True)
    text = message(bp.NothingMatched, lambda: bp.diff(a, b, rename={"embed": "begin"}))
    assert "no name of the second run is 'begin" in text and "a.names and b.names, for all names of both" in text


def test_other_runs_measure_the_floor(tmp_path):
    def jitter(seed):
        def fault(step, model):
            with torch.no_grad():
                for one in model.parameters():
                    one.grad *= 1 + 1e-3 * torch.randn((), generator=torch.Generator().manual_seed(seed + step))

        return fault

    a, b = trained(tmp_path / "a"), trained(tmp_path / "b", fault=jitter(0))
    noise = [trained(tmp_path / f"n{seed}", fault=jitter(seed)) for seed in (100, 200, 300)]
    assert bp.diff(a, b).ok is False
    bp.diff(a, b, noise=noise).assert_ok(strict=True)
    found = bp.diff(a, trained(tmp_path / "c", lr=0.11), noise=noise).first
    assert found.step == 0 and "floor: measured: 3 other runs" in found.facts


def in_processes(folder, count, factor=1.0):
    """What several processes write whose gradients are averaged, each with its part of the batch and its own loss."""
    torch.manual_seed(0)
    models = [Net() for _ in range(count)]
    for model in models:
        model.load_state_dict(models[0].state_dict())
    data = torch.randn(3, 8, 3, generator=torch.Generator().manual_seed(1))
    with ExitStack() as stack:
        optimizers = [sgd(model) for model in models]
        runs = [
            stack.enter_context(bp.watch(model, folder, optimizer=optimizer, rank=rank, what=ALL))
            for rank, (model, optimizer) in enumerate(zip(models, optimizers, strict=True))
        ]
        for x in data:
            losses = [model(part).square().mean() for model, part in zip(models, x.chunk(count), strict=True)]
            for loss in losses:
                loss.backward()
            for own in zip(*(model.parameters() for model in models), strict=True):
                mean = sum(one.grad for one in own) * factor / count
                for one in own:
                    one.grad = mean.clone()
            for optimizer, run, loss in zip(optimizers, runs, losses, strict=True):
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss)
    return folder


def test_each_process_logs_the_loss_of_its_part_and_their_mean_is_compared(tmp_path):
    one, two, four = (in_processes(tmp_path / str(count), count) for count in (1, 2, 4))
    for a, b in ((one, two), (two, one), (two, four)):
        report = bp.diff(a, b)
        assert report.findings == () and report.ok and not report.complete, str(report)
        assert {row.pair.name for row in report.rows if row.pair.kind == "logged"} == {"loss"}
        assert not any("have" in note and "whole" in note for note in report.notes)
    first = bp.diff(one, in_processes(tmp_path / "wrong", 2, factor=2.0)).first
    assert (first.step, first.kind) == (0, "grad")


def logged(folder, losses):
    model = nn.Linear(3, 1)
    optimizer = sgd(model, lr=0.0)
    with bp.watch(model, folder, optimizer=optimizer) as run:
        for x, loss in zip(torch.ones(len(losses), 5, 3), losses, strict=True):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)
    return folder


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (math.nan, "the logged 'loss' differs: it is 2 in the first, nan in the second"),
        (math.inf, "the logged 'loss' differs: it is 2 in the first, inf in the second"),
        (2.5, "the logged 'loss' differs: it is 2 in the first, 2.5 in the second"),
    ],
)
def test_a_logged_number_that_is_another_or_not_finite_is_a_difference(tmp_path, second, said):
    torch.manual_seed(0)
    a = logged(tmp_path / "a", [1.0, 2.0, 3.0])
    torch.manual_seed(0)
    b = logged(tmp_path / "b", [1.0, second, 3.0])
    first = bp.diff(a, b).first
    assert (first.step, first.field, first.headline) == (1, "logged", said)
    assert bp.diff(b, a).first.step == 1
    bp.diff(b, b).assert_ok(strict=True)


def test_what_only_one_measured_of_a_name_is_said(tmp_path):
    a, b = (trained(tmp_path / name, steps=range(2), what=what) for name, what in (("a", ALL), ("b", ALL[:-1])))
    report = bp.diff(a, b)
    assert report.ok and not report.complete and report.findings == ()
    (note,) = report.notes
    golden("diff", note)
    (note,) = bp.diff(b, a).notes
    golden("diff", note)


def test_a_rename_takes_a_name_before_an_equal_one_does(tmp_path):
    a = trained(tmp_path / "a", steps=range(2))
    report = bp.diff(a, a, rename={"embed.bias": "body.0.bias"})
    assert [row.pair.name for row in report.rows if row.pair.other == "body.0.bias"] == ["embed.bias"] * 3
    assert report.only_a == ("body.0.bias",) and report.only_b == ("embed.bias",)


def test_noise_of_another_training_is_refused(tmp_path):
    a = trained(tmp_path / "a", steps=range(2))
    later = trained(tmp_path / "later", steps=range(2), start_step=10)
    text = message(bp.BadOption, lambda: bp.diff(a, a, noise=later))
    assert text.startswith("a run of noise= has nothing in common with the first run\n  asked: noise=['")


def test_steps_that_only_one_measured_are_said(tmp_path):
    report = bp.diff(trained(tmp_path / "a"), trained(tmp_path / "b", every=10))
    assert report.ok and not report.complete and not report.findings


def test_of_two_paths_the_static_type_says_that_they_may_be_runs():
    types = {(one["a"], one["b"]): one["return"] for one in map(inspect.get_annotations, get_overloads(bp.diff))}
    assert types["Folder", "Folder"] == "DiffReport | RunDiffReport"
    assert types["Run", "Run | Folder"] == types["Folder", "Run"] == "RunDiffReport"
    assert types["Recording", "Recording | Folder"] == types["Folder", "Recording"] == "DiffReport"


def test_the_command_line_compares_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained(tmp_path / "a", steps=range(4))
    trained(tmp_path / "b", steps=range(4), lr=0.2)
    out = printed(invoked("diff", "a", "b"), 1)
    golden("diff", out)
    assert json.loads(printed(invoked("diff", "a", "a", "--json")))["ok"] is True
    trained(tmp_path / "again", steps=range(4), lr=0.15)
    assert printed(invoked("diff", "a", "b", "--noise", "again")).startswith("no difference")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a, b, rec: bp.diff(a, rec), "a run is compared with a run"),
        (lambda a, b, rec: bp.diff(rec, bp.open_run(a)), "a run is compared with a run"),
        (lambda a, b, rec: bp.diff(a, rec, rename={"embed": "x"}), "a run is compared with a run"),
        (lambda a, b, rec: bp.diff(a, b, rename=3), "rename is a dict from patterns of the first's names"),
        (lambda a, b, rec: bp.diff(a, b, layout={"head": "T"}), "layout is for recordings"),
        (lambda a, b, rec: bp.diff(a, b, convention="flax"), "convention is for recordings"),
        (lambda a, b, rec: bp.diff(a, b, noise=rec), "noise is other runs of the same training"),
        (lambda a, b, rec: bp.diff(a, b, noise=[]), "noise is other runs of the same training"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, call, said):
    a, b = (trained(tmp_path / name, steps=range(3)) for name in "ab")
    rec = bp.probe(lambda x: x * 2)(torch.tensor(1.0))
    text = message(bp.BadOption, lambda: call(a, b, rec))
    assert text.startswith(said) and "  asked: " in text and "  next:  " in text


def test_runs_of_unlike_models_and_damaged_ones_are_refused(tmp_path):
    a = trained(tmp_path / "a", steps=range(3))
    other, x = nn.Sequential(nn.Linear(3, 1)), batches(50)
    with bp.watch(other, tmp_path / "b", optimizer=sgd(other)):
        for step in range(3):
            other(x[step]).sum().backward()
    assert message(bp.BadOption, lambda: bp.diff(a, tmp_path / "b")).startswith("these runs have nothing in common")
    missing = message(bp.BadOption, lambda: bp.diff(tmp_path / "a", tmp_path / "nowhere"))
    assert "which does not exist" in missing
    with bp.watch(other, tmp_path / "none", optimizer=sgd(other)):
        pass
    nothing = message(bp.BadOption, lambda: bp.diff(tmp_path / "none", tmp_path / "none"))
    golden("diff", nothing)
    (file,) = (tmp_path / "a").glob("*.sqlite")
    file.write_bytes(b"nothing")
    with pytest.raises(bp.BadRun):
        bp.diff(a, a)
