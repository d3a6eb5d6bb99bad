"""``bp.guard(model, capture=...)`` and ``bp.replay``: the failing step as a file, and that step run again."""

from __future__ import annotations

import inspect
import json
import os
import random
import sys

import numpy
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import backprobe as bp
from backprobe.storage import step_writer, steps
from capture_cases import CASES, STEPS, Dropout, HiddenStates, Penalised, Training, batch, root
from commands import forked, invoked, refused
from goldens import golden


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)


def captured(training, path):
    """The error with which a training ends, whose last step is written."""
    training.prepare()
    with pytest.raises(bp.NotFinite) as caught, bp.guard(training.net, capture=path):
        for step in range(STEPS):
            training.step(step)
    assert step == STEPS - 1
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_a_step_runs_again_in_every_bit(name, tmp_path):
    training = CASES[name]()
    error = captured(training, tmp_path / "bad-step")
    assert (tmp_path / "bad-step" / "recording.json").is_file()
    torch.manual_seed(9)
    other = CASES[name]().net
    before = {key: value.clone() for key, value in other.state_dict().items()}
    drawn = torch.get_rng_state()
    report = bp.replay(tmp_path / "bad-step", other)
    assert report.bitwise, report
    assert [str(one) for one in report.findings] == [str(one) for one in error.report.findings]
    assert torch.equal(drawn, torch.get_rng_state())
    assert all(torch.equal(before[key], value) for key, value in other.state_dict().items())
    assert report.recording is not None


class Overwritten(Training):
    """The batch is in memory that is filled anew before ``backward()``, which does not need it."""

    held = torch.ones(6, 2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 2)

        def forward(self, x):
            return root(self.a(torch.ones(6, 3)), x)

    def model(self):
        return self.Net()

    def loss(self, net, step):
        loss = net(self.held.copy_(batch(step, 6, 2))).square().mean()
        self.held.fill_(3.0)
        return loss


class Opaque:
    scale = 2.0


class OfAnObject(Training):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 2)

        def forward(self, x, config):
            return root(self.a(x), x) * config.scale

    def model(self):
        return self.Net()

    def loss(self, net, step):
        return net(batch(step, 6, 3), config=Opaque()).square().mean()


def test_the_gradients_of_the_recording_are_those_of_the_step(tmp_path):
    training = Dropout()
    captured(training, tmp_path / "bad-step")
    report = bp.replay(tmp_path / "bad-step", Dropout().net)
    for name, parameter in training.net.named_parameters():
        assert torch.equal(report.recording[name].grad.nan_to_num(7.0), parameter.grad.nan_to_num(7.0)), name
        assert torch.equal(report.recording[name].value, parameter), name


@pytest.mark.parametrize("name", ["Dropout", "BatchNorm", "Gan", "WritesItsInput"])
def test_a_training_is_as_it_is_without_a_capture(name, tmp_path):
    def trained(guarded):
        torch.manual_seed(3)
        training = CASES[name]()
        training.prepare()
        with guarded(training.net):
            for step in range(STEPS - 1):
                training.step(step)
        return training.net.state_dict(), torch.get_rng_state()

    plain, drawn = trained(lambda net: bp.guard(net))
    armed, also_drawn = trained(lambda net: bp.guard(net, capture=tmp_path / "bad-step"))
    assert torch.equal(drawn, also_drawn)
    assert all(torch.equal(plain[key], armed[key]) for key in plain)
    assert not [*tmp_path.iterdir()]


def test_what_is_in_the_files(tmp_path):
    training = CASES["NestedBatch"]()
    error = captured(training, tmp_path / "bad-step")
    said = json.loads((tmp_path / "bad-step" / "step.json").read_text())
    assert (said["format"], said["headline"], said["left_out"]) == ("backprobe step", error.headline, [])
    assert said["report"] == str(error.report)
    assert said["stamp"]["packages"]["torch"] == torch.__version__
    tensors = load_file(tmp_path / "bad-step" / "step.safetensors")
    assert torch.equal(tensors["parameters.a.weight"], training.net.a.weight)
    assert tensors["calls.0.kwargs.mask"].dtype is torch.bool
    assert tensors["calls.0.args.0.x.1"].count_nonzero() == 0
    assert bp.load(tmp_path / "bad-step")["a.weight"].grad is not None
    assert error.__notes__ == [
        f"The step is in {tmp_path}/bad-step. Run it again: backprobe replay {tmp_path}/bad-step model.py:make_model"
    ]


def test_an_output_that_others_are_computed_from_is_not_where_it_came_in(tmp_path):
    error = captured(HiddenStates(), tmp_path / "bad-step")
    assert error.report.findings[0].kind == "born_backward"
    assert error.report.findings[0].source.text.strip().startswith("return torch.sqrt")


def test_a_watch_captures_too(tmp_path):
    training = Dropout()
    training.prepare()
    guarded = bp.watch(training.net, tmp_path / "run", optimizer=training.optimizer, guard=tmp_path / "bad-step")
    with pytest.raises(bp.NotFinite), guarded:
        for step in range(STEPS):
            training.step(step)
    report = bp.replay(tmp_path / "bad-step", Dropout().net)
    assert report.bitwise
    with bp.open_run(tmp_path / "run") as run:
        assert [*run.steps] == [*range(STEPS)]


def test_only_the_first_step_is_captured(tmp_path):
    training, raised = Dropout(), 0
    training.prepare()
    for step in (0, STEPS - 1, 1, STEPS - 1):  # a guard that is entered in each step
        try:
            with bp.guard(training.net, capture=tmp_path / "bad-step"):
                training.step(step)
        except bp.NotFinite as error:
            raised += 1
            assert bool(getattr(error, "__notes__", ())) == (raised == 1)
            training.optimizer.zero_grad()
    assert raised == 2
    assert bp.replay(tmp_path / "bad-step", Dropout().net).bitwise


def test_a_program_that_goes_to_another_folder(tmp_path, monkeypatch):
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path)
    training = Dropout()
    training.prepare()
    with pytest.raises(bp.NotFinite) as caught, bp.guard(training.net, capture="bad-step"):
        monkeypatch.chdir("deeper")
        training.step(STEPS - 1)
    assert (tmp_path / "bad-step" / "step.json").is_file()
    assert f"The step is in {tmp_path}/bad-step." in caught.value.__notes__[0]


class Wrapped(nn.Module):
    """What ``DistributedDataParallel`` puts around a model, as far as names go."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)


def test_a_wrapped_model_runs_again_without_its_wrapper_and_with_it(tmp_path):
    training = Dropout()
    training.net = Wrapped(training.net)
    captured(training, tmp_path / "bad-step")
    assert bp.replay(tmp_path / "bad-step", Dropout().net).bitwise
    assert bp.replay(tmp_path / "bad-step", Wrapped(Dropout().net)).bitwise


def edited(folder, change):
    """A step whose description is changed as a whole, with its digest."""
    data = json.loads(change((folder / "step.json").read_text()))
    del data["digest"]
    data["digest"] = steps.recordings.digest_of(steps.canonical(data))
    (folder / "step.json").write_text(json.dumps(data))


def test_without_the_card_it_runs_on_the_cpu(tmp_path):
    captured(Dropout(), tmp_path / "bad-step")
    edited(tmp_path / "bad-step", lambda text: text.replace('"cpu"', '"cuda:7"'))
    report = bp.replay(tmp_path / "bad-step", Dropout().net)
    assert report.findings[0].kind == "born_backward"
    golden("capture", report.notes)


def test_a_class_of_the_arguments_that_is_not_imported_is_said(tmp_path):
    captured(CASES["Objects"](), tmp_path / "bad-step")
    changed = ('"capture_cases"', '"gone_module"'), ('"Batch"', '"Bunch"')
    edited(tmp_path / "bad-step", lambda text: text.replace(*changed[0]).replace(*changed[1]))
    with pytest.raises(bp.BadOption) as caught:
        bp.replay(tmp_path / "bad-step", CASES["Objects"]().net)
    golden("capture", str(caught.value).replace(str(tmp_path), "."))


# what is left out


def test_a_gradient_to_which_the_loss_adds_is_not_said_to_be_wrong(tmp_path):
    captured(Penalised(), tmp_path / "bad-step")
    report = bp.replay(tmp_path / "bad-step", Penalised().net)
    assert not report.bitwise
    golden("capture", report.notes[-1])


def test_an_argument_that_was_overwritten_is_left_out(tmp_path):
    error = captured(Overwritten(), tmp_path / "bad-step")
    golden("capture", str(error.__notes__[0]).replace(str(tmp_path), "."))
    with pytest.raises(bp.BadOption) as caught:
        bp.replay(tmp_path / "bad-step", Overwritten().net)
    golden("capture", str(caught.value).replace(str(tmp_path), "."))


def test_an_object_is_left_out(tmp_path):
    captured(OfAnObject(), tmp_path / "bad-step")
    with pytest.raises(bp.BadOption) as caught:
        bp.replay(tmp_path / "bad-step", OfAnObject().net)
    golden("capture", str(caught.value).replace(str(tmp_path), "."))
    assert bp.load(tmp_path / "bad-step")["a.weight"].grad is not None


def test_large_parameters_are_left_out_before_the_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(step_writer, "LARGEST", 9000)
    monkeypatch.setattr(step_writer, "LARGEST_RECORDING", 100)

    class Wide(Dropout):
        def model(self):
            torch.manual_seed(1)
            return nn.Sequential(nn.Linear(3, 2000), nn.Linear(2000, 2))

        def loss(self, net, step):
            return torch.log(net(torch.randn(4, 3)).square() * (step < STEPS - 1)).mean()

    training = Wide()
    training.optimizer = torch.optim.SGD(training.net.parameters(), 0.0)
    training.prepare = lambda: None
    captured(training, tmp_path / "bad-step")
    said = json.loads((tmp_path / "bad-step" / "step.json").read_text())
    golden("capture", "\n".join(said["left_out"]))
    assert not (tmp_path / "bad-step" / "recording.json").exists()
    assert sum(one.stat().st_size for one in (tmp_path / "bad-step").iterdir()) < 40_000
    report = bp.replay(tmp_path / "bad-step", Wide().net)
    assert report.bitwise  # the parameters are the same ones here
    golden("capture", report.notes[-1])


# a disk without room

FULL = """
    import resource, signal, sys, warnings
    import torch, backprobe as bp
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    warnings.simplefilter(sys.argv[1], RuntimeWarning)
    net = torch.nn.Linear(300, 300)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))  # a disk with no room left
    with bp.guard(net, capture="bad-step"):
        for step, x in enumerate((torch.ones(1, 300), torch.full((1, 300), torch.nan), torch.ones(1, 300))):
            try:
                net(x).sum().backward()
            except bp.NotFinite as error:
                print("NotFinite", getattr(error, "__notes__", ()))
        print("trained", step)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
"""


@pytest.mark.parametrize("warning", ["default", "error"])
def test_a_full_disk_does_not_stop_the_training(warning, tmp_path):
    (tmp_path / "program.py").write_text(inspect.cleandoc(FULL))
    (tmp_path / "empty").mkdir()
    code, printed, warned = forked("../program.py", warning, cwd=tmp_path / "empty")
    assert (code, printed) == (0, "NotFinite ()\ntrained 2\n"), warned
    assert "bp.guard could not write the step to bad-step: no room on the disk. Nothing of it is there." in warned
    assert os.listdir(tmp_path / "empty") == []


# errors


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("captured") / "bad-step"
    captured(Dropout(), path)
    return path


def message(kind, call, written):
    with pytest.raises(kind) as caught:
        call()
    golden("capture", str(caught.value).replace(str(written.parent), "."))


class Narrow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 7), nn.GELU(), nn.Dropout(0.3), nn.Linear(7, 4))
        self.lasts = nn.Linear(4, 2)


def test_a_model_that_does_not_fit(written):
    message(bp.BadOption, lambda: bp.replay(written, Narrow()), written)
    message(bp.BadOption, lambda: bp.replay(written, Dropout), written)
    message(bp.BadOption, lambda: bp.replay(written, 3), written)


def test_what_is_no_capture(written, tmp_path):
    message(bp.BadRecording, lambda: bp.replay(written.parent, Narrow()), written)
    message(bp.BadRecording, lambda: bp.replay(written.parent / "nothing", Narrow()), written)
    message(bp.BadOption, lambda: bp.replay(3, Narrow()), written)
    bp.probe(lambda x: x * 2)(torch.ones(())).save(tmp_path / "rec")
    with pytest.raises(bp.BadRecording) as caught:
        bp.replay(tmp_path / "rec", Narrow())
    golden("capture", str(caught.value).replace(str(tmp_path), "."))


@pytest.mark.parametrize("file", ["step.json", "step.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_file_is_refused(file, damage, written, tmp_path):
    folder = tmp_path / "bad-step"
    folder.mkdir()
    for name in ("step.json", "step.safetensors"):
        data = (written / name).read_bytes()
        if name == file and damage == "cut":
            data = data[: len(data) // 2]
        if name == file and damage == "changed":
            data = data.replace(b"parameters", b"parametres")
        if name != file or damage != "gone":
            (folder / name).write_bytes(data)
    with pytest.raises(bp.BadRecording) as caught:
        bp.replay(folder, Dropout().net)
    golden("capture", caught.value.headline.replace(str(tmp_path), "."))


def test_a_folder_that_exists_already(written, tmp_path, monkeypatch):
    net = nn.Linear(3, 3)
    monkeypatch.setattr(sys.modules["backprobe.guard.capture"], "PROCESS", "another")
    message(bp.BadOption, lambda: bp.guard(net, capture=written), written)
    message(bp.BadOption, lambda: bp.watch(net, tmp_path / "run", guard=str(written)), written)
    message(bp.BadOption, lambda: bp.guard(net, capture=written.parent), written)
    message(bp.BadOption, lambda: bp.guard(net, capture=written / "step.json" / "deeper"), written)
    message(bp.BadOption, lambda: bp.guard(net, capture=3), written)
    message(bp.BadOption, lambda: bp.guard(capture="bad-step").__enter__(), written)
    assert not (tmp_path / "run").exists()


# the command

MODEL = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self, width=4):
            super().__init__()
            self.a, self.drop = torch.nn.Linear(3, width), torch.nn.Dropout(0.2)

        def forward(self, x):
            h = self.drop(self.a(x))
            return h / x.sum()

    def make_model(width=4):
        return Net(width)

    def number():
        return 3
"""
TRAINING = """
    import torch, backprobe as bp
    from model import make_model
    torch.manual_seed(0)
    net = make_model()
    with bp.guard(net, capture="bad-step"):
        for x in (torch.ones(2, 3), torch.zeros(2, 3)):
            net(x).sum().backward()
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "model.py").write_text(inspect.cleandoc(MODEL))
    (folder / "train.py").write_text(inspect.cleandoc(TRAINING))
    error = refused(forked("train.py", cwd=folder), 1)
    assert "The step is in bad-step. Run it again: backprobe replay bad-step model.py:make_model" in error
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("bad-step", "model.py:make_model"),
        ("bad-step", "model.py:Net"),
        ("bad-step", "model.py:make_model", "width=5"),
        ("bad-step", "model.py:make_model", "depth=5"),
        ("bad-step", "model.py:number"),
        ("bad-step", "model.py:make_modl"),
        ("bad-step", "model.py"),
        ("bad-step",),
        ("bad-step", "no.py:make_model"),
        (".", "model.py:make_model"),
        ("nothing", "model.py:make_model", "unknown=1"),  # before the program is asked
    ],
)
def test_the_command(words, trained, monkeypatch):
    monkeypatch.chdir(trained)
    code, out, err = invoked("replay", *words)
    assert code == (1 if out else 2)
    golden("capture", out or err)


def test_the_command_in_json(trained, monkeypatch):
    monkeypatch.chdir(trained)
    data = json.loads(invoked("replay", "bad-step", "model.py:make_model", "--json")[1])
    assert (data["bitwise"], data["ok"]) == (True, False)
    assert data["findings"][0]["kind"] == "born"
