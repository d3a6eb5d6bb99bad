"""Two trainings compared: the first step and name at which they part."""

import json

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message
from commands import invoked, printed
from watched import Net, batches, sgd


def trained(folder, *, seed=0, lr=0.1, steps=range(50), fault=None, model=None, **options):
    torch.manual_seed(seed)
    model = model or Net()
    optimizer = sgd(model, lr=lr)
    with bp.watch(model, folder, optimizer=optimizer, updates=True, **options) as run:
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
    assert report.ok is True and report.first is None and report.findings == ()
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
    assert report.heading.startswith(f"the trainings part at step 0: the update of {first.name!r} differs: its rms is ")
    assert any(fact.startswith("in this step these agree: what each name returns, ") for fact in first.facts)


def test_a_fault_at_step_40_is_found_there(tmp_path):
    def half(step, model):
        if step == 40:
            model.body[0].weight.grad *= 0.5

    report = bp.diff(trained(tmp_path / "a"), trained(tmp_path / "b", fault=half))
    assert (report.first.step, report.first.name, report.first.field) == (40, "body.0.weight", "grad.rms")
    assert "in the steps before it was at most 0 × the floor" in report.first.facts
    parts = {(row["name"], row["kind"]): row["parts_at"] for row in report.data["rows"]}
    assert parts["body.0.weight", "update"] == 40 and parts["embed", "value"] in (None, *range(41, 50))
    json.dumps(report.data, allow_nan=False)
    assert str(report).startswith(report.heading) and "body.0.weight" in report._repr_html_()


def test_a_nan_is_a_difference_in_counts_and_equal_where_both_have_it(tmp_path):
    def spoilt(step, model):
        if step == 7:
            model.head.weight.grad[0, 0] = torch.nan

    a, b = trained(tmp_path / "a", fault=spoilt), trained(tmp_path / "b", fault=spoilt)
    assert bp.diff(a, b).ok
    first = bp.diff(trained(tmp_path / "c"), a).first
    assert (first.step, first.name) == (7, "head.weight") and first.field in ("grad.nan", "grad.finite")


def test_a_resumed_training_is_one_run(tmp_path):
    torch.manual_seed(0)
    model = Net()
    trained(tmp_path / "b", model=model, steps=range(20))
    trained(tmp_path / "b", model=model, steps=range(20, 50))
    report = bp.diff(trained(tmp_path / "a"), tmp_path / "b")
    assert report.ok is True, str(report)
    assert bp.diff(trained(tmp_path / "c", steps=range(30)), tmp_path / "b").ok is None


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
    assert report.ok is None and "embed.weight" in report.only_a and "start.weight" in report.only_b
    assert bp.diff(a, b, rename={"embed": "start", "body": "layers"}).ok is True
    assert "no name of the second recording is 'begin" in message(
        bp.NothingMatched, lambda: bp.diff(a, b, rename={"embed": "begin"})
    )


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
    assert bp.diff(a, b, noise=noise).ok is True
    found = bp.diff(a, trained(tmp_path / "c", lr=0.11), noise=noise).first
    assert found.step == 0 and "floor: measured: 3 other runs" in found.facts


def test_steps_that_only_one_measured_are_said(tmp_path):
    report = bp.diff(trained(tmp_path / "a"), trained(tmp_path / "b", every=10))
    assert report.ok is None and not report.findings


def test_the_command_line_compares_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained(tmp_path / "a", steps=range(4))
    trained(tmp_path / "b", steps=range(4), lr=0.2)
    out = printed(invoked("diff", "a", "b"), 1)
    assert out.startswith("the trainings part at step 0: the update of 'embed.weight' differs")
    assert json.loads(printed(invoked("diff", "a", "a", "--json")))["ok"] is True


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a, b, rec: bp.diff(a, rec), "a run is compared with a run"),
        (lambda a, b, rec: bp.diff(rec, bp.open_run(a)), "a run is compared with a run"),
        (lambda a, b, rec: bp.diff(a, b, layout={"head": "T"}), "layout is for recordings"),
        (lambda a, b, rec: bp.diff(a, b, noise=rec), "the noise of a run is other runs of the same training"),
        (lambda a, b, rec: bp.diff(a, b, noise=[]), "the noise of a run is other runs of the same training"),
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
    (file,) = (tmp_path / "a").glob("*.sqlite")
    file.write_bytes(b"nothing")
    with pytest.raises(bp.BadRun):
        bp.diff(a, a)
