"""Running a program again: what the table of states (``test_replay_state.py``) does not reach, and ``bp.explain(rec)``.

The line with ``# <- here`` is the one that must be named.
"""

import copy
import functools
import inspect
import os
import pickle
import random
import socket
import subprocess
import sys
import tempfile
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from backprobe.backends import taken
from backprobe.backends.discover import load_backend
from backprobe.backends.kept import Kept
from backprobe.backends.replay import Replay
from backprobe.backends.side_effects import StoppedAtEffect, harmless
from backprobe.backends.taken import is_stream
from backprobe.probe import script_experiments
from outside import held, note, noted

# what is put back


class Undone:
    """Undos of a ``Kept`` that note their names, some of which are interrupted as often as asked."""

    def __init__(self, **interrupted):
        self.kept, self.interrupted, self.done = Kept(), interrupted, []

    def keep(self, *names):
        self.kept.undo += [lambda name=name: self.undo(name) for name in names]

    def undo(self, name):
        if self.interrupted.get(name, 0):
            self.interrupted[name] -= 1
            raise KeyboardInterrupt(name)
        self.done.append(name)


def test_the_last_change_is_put_back_first():
    undone = Undone()
    undone.keep("first", "second", "third")
    undone.kept.put_back()
    assert undone.done == ["third", "second", "first"]


def test_an_undo_that_is_interrupted_is_done_once_more():
    undone = Undone(second=1)
    undone.keep("first", "second", "third")
    with pytest.raises(KeyboardInterrupt, match="second"):
        undone.kept.put_back()
    assert undone.done == ["third", "second", "first"]


def test_an_undo_that_is_interrupted_twice_is_left_and_the_others_are_done():
    undone = Undone(second=2)
    undone.keep("first", "second", "third")
    with pytest.raises(KeyboardInterrupt, match="second"):
        undone.kept.put_back()
    assert undone.done == ["third", "first"]


def test_the_first_of_several_errors_is_raised():
    undone = Undone(first=2, third=2)
    undone.keep("first", "second", "third")
    with pytest.raises(KeyboardInterrupt, match="third"):
        undone.kept.put_back()
    assert undone.done == ["second"]


def test_an_error_of_an_undo_does_not_take_the_place_of_the_rest():
    kept, done = Kept(), []

    def fails():
        raise ValueError("no")

    kept.undo += [lambda: done.append("first"), fails]
    with pytest.raises(ValueError, match="no"):
        kept.put_back()
    assert done == ["first"]


def norm_and_optimizer():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout())
    model(torch.randn(8, 3)).sum().backward()
    return model, torch.optim.Adam(model.parameters())


def state_of(model):
    """All that a step of training changes, to be compared with ``same``."""
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    numbers = [value.clone() for value in model.state_dict().values()]
    return [torch.get_rng_state(), *gradients, *numbers], random.getstate(), repr(np.random.get_state()), model.training


def same(one, other):
    return all(map(torch.equal, one[0], other[0])) and one[1:] == other[1:]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_all_is_put_back_after_a_run_that_raises(error):
    model, optimizer = norm_and_optimizer()
    before = state_of(model)
    replay = Replay(load_backend("torch"), model)
    for _ in range(2):
        with pytest.raises(error, match="in the program"), replay.run():
            model(torch.randn(8, 3)).sum().backward()
            optimizer.step()
            model.eval()
            random.random(), np.random.rand()
            assert not same(state_of(model), before)
            raise error("in the program")
        assert same(state_of(model), before)
    assert not optimizer.state


def test_a_run_after_one_that_raised_begins_alike():
    model, _ = norm_and_optimizer()
    replay = Replay(load_backend("torch"), model)
    with replay.run():
        first = model(torch.ones(8, 3))
    with pytest.raises(ValueError), replay.run():
        model(torch.ones(8, 3))
        raise ValueError
    with replay.run():
        assert torch.equal(model(torch.ones(8, 3)), first)


def test_what_replay_listens_to_is_as_it_was_afterwards():
    backward, call = torch.autograd._engine_run_backward, nn.Module.__call__
    with pytest.raises(ValueError), Replay(load_backend("torch"), None).run():
        assert nn.Module.__call__ is not call
        raise ValueError
    assert (torch.autograd._engine_run_backward, nn.Module.__call__) == (backward, call)


# what is not put back


def test_an_iterator_that_was_taken_from_keeps_nothing_alive_afterwards():
    items = (torch.full((3,), one) for one in (1.0, 2.0))
    replay = Replay(load_backend("torch"), lambda: items)
    with replay.run():
        taken = weakref.ref(next(items))
    assert replay.taken[id(items)] is items
    assert taken() is None


def test_an_object_of_ours_is_not_opened():
    rec = bp.probe(lambda x: (x * 2).sum())(torch.ones(3))
    watched = bp.sweep(lambda x: (x * 2).sum(), "x", replace=lambda x: x)
    reached = Replay(load_backend("torch"), lambda x: x * (rec is watched)).state.reached
    assert any(one is rec for one in reached)
    assert not [one for one in reached if one is rec.record or one is vars(watched)]


def test_nor_is_what_pytorch_has_for_itself():
    from torch.nn.functional import interpolate  # it names much of its module

    state = Replay(load_backend("torch"), lambda x: interpolate(x, scale_factor=2.0)).state
    names = vars(sys.modules["torch.nn.functional"])
    inner = [name for name, one in names.items() if any(one is each for each in state.reached)]
    assert inner in (["interpolate"], [])


def test_a_profiler_of_the_program_stays():
    """What is read from a pipe is heard by one of ours, unless the program has one, before the run or from it on."""

    def profiler(frame, event, argument):
        pass

    for before in (profiler, None):
        reading, writing = os.pipe()
        os.close(writing)
        with os.fdopen(reading) as held:
            sys.setprofile(before)
            try:
                with Replay(load_backend("torch"), lambda held=held: held).run():
                    sys.setprofile(profiler)
                    assert held.readline() == ""
                assert sys.getprofile() is profiler
            finally:
                sys.setprofile(None)


# side effects


def writing(path):
    path.write_text("written")


def appending(path):
    with open(path, "a"):
        pass


def by_flags(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def making_a_folder(path):
    path.mkdir()


def removing(path):
    path.unlink()


def starting_a_process(path):
    subprocess.run([sys.executable, "-c", f"open({str(path)!r}, 'w')"], check=True)


def connecting(path):
    with socket.socket() as one:
        one.connect(("127.0.0.1", 9))


def asking(path):
    input()


EFFECTS = {
    writing: "opens {} for writing",
    appending: "opens {} for writing",
    by_flags: "opens {} for writing",
    making_a_folder: "changes files",
    removing: "changes files",
    starting_a_process: "starts a process",
    connecting: "connects to a network",
    asking: "asks for input",
}


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.__name__)
def test_a_harmless_run_ends_before_its_first_side_effect(effect, tmp_path):
    path = tmp_path / "it"
    with pytest.raises(StoppedAtEffect) as stopped, harmless("f"):
        effect(path)
    note = f"f was not run again to look for useless gradients: it {EFFECTS[effect].format(path)}"
    assert str(stopped.value.note) == note
    assert not path.exists()


def test_a_program_that_catches_all_is_stopped_all_the_same(tmp_path):
    def stubborn():
        try:
            writing(tmp_path / "it")
        except BaseException:  # noqa: BLE001  that is what is tested
            return "goes on"

    with pytest.raises(StoppedAtEffect, match="for writing"), harmless("f"):
        assert stubborn() == "goes on"
    assert not (tmp_path / "it").exists()


def test_a_file_may_be_read_and_something_printed(tmp_path, capsys):
    (tmp_path / "it").write_text("read")
    with harmless("f"):
        print((tmp_path / "it").read_text(), sorted(one.name for one in tmp_path.iterdir()))
    assert capsys.readouterr().out == "read ['it']\n"


def test_side_effects_are_allowed_again_afterwards(tmp_path):
    with pytest.raises(StoppedAtEffect), harmless("f"):
        writing(tmp_path / "it")
    writing(tmp_path / "it")
    assert (tmp_path / "it").read_text() == "written"


# functions and models whose gradients are useless


def here(program):
    """The number of the line that is marked in a program."""
    lines, first = inspect.getsourcelines(program)
    return first + next(at for at, line in enumerate(lines) if "# <- here" in line)


def broadcasting(x, w, y):
    prediction = x @ w
    loss = (prediction - y).pow(2).mean()  # <- here
    return loss


def softmax_twice(x, w, y):
    probabilities = (x @ w).softmax(-1)
    return F.cross_entropy(probabilities, y)  # <- here


def divided_by_itself(x, w):
    score = x @ w
    weight = score / score.sum(-1, keepdim=True)  # <- here
    return (weight * 2).sum()


def dropping(x, w):
    loss = (x @ w).pow(2).mean()
    loss.add(0.1 * w.pow(2).sum())  # <- here
    return loss


def weighed(x, score):
    weight = torch.softmax(x @ score, -1)  # <- here
    return (weight * x).square().sum()


class Dead(nn.Module):
    """Its first layer is dead: of its parameters only the last bias has a gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 1)
        nn.init.constant_(self.first.bias, -100.0)

    def forward(self, x, y):
        h = torch.relu(self.first(x))  # <- here
        return (self.last(h)[:, 0] - y).pow(2).mean()


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x, y):
        mask = (y > 100).float()
        error = self.layer(x)[:, 0] - y
        return (error.pow(2) * mask).mean()  # <- here


def clamped(x, scale):
    y = x * scale.clamp(min=0.1)  # <- here
    return y.pow(2).sum()


def within(x, scale):
    return (x * scale.clamp(50.0, 100.0)).sum()  # <- here


def weighted_by_nothing(x, part):
    return x.sum() + 0.0 * part.sum()  # <- here


def times_nothing(x, part):
    return x.sum() + part.sum() * 0  # <- here


def numbers(*shape):
    return torch.linspace(0.5, 1.5, torch.Size(shape).numel()).reshape(shape)


CLASSES = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])


FINDINGS = {
    "outer_product": (broadcasting, (numbers(8, 3), numbers(3, 1), numbers(8))),
    "distribution_twice": (softmax_twice, (numbers(8, 3), numbers(3, 4), CLASSES)),
    "cancels": (divided_by_itself, (numbers(8, 3), numbers(3, 1))),
    "result_dropped": (dropping, (numbers(8, 3), numbers(3, 1))),
}
FINDINGS["zero_flat"] = (weighed, (numbers(8, 5, 3), numbers(3, 1)))
NOTES = {
    "clamp": (clamped, clamped, (numbers(8), torch.tensor(-3.0))),
    "clamp of numbers far away": (within, within, (numbers(8), torch.tensor(3.0))),
    "mul by a literal 0.0": (weighted_by_nothing, weighted_by_nothing, (numbers(8), numbers(2))),
    "mul by a literal 0": (times_nothing, times_nothing, (numbers(8), numbers(2))),
    "relu": (Dead(), Dead.forward, (numbers(8, 3), numbers(8))),
}


@pytest.mark.parametrize("kind", FINDINGS)
def test_a_function_with_useless_gradients_is_explained_at_its_line(kind):
    program, arguments = FINDINGS[kind]
    report = bp.explain(bp.probe(program)(*arguments))
    assert [(one.kind, one.source.line) for one in report] == [(kind, here(program))]
    assert not report.ok


@pytest.mark.parametrize("operation", NOTES)
def test_a_gradient_that_is_0_at_these_arguments_is_a_note_with_its_line(operation):
    target, program, arguments = NOTES[operation]
    report = bp.explain(bp.probe(target)(*arguments))
    assert report.ok
    (note,) = report.notes
    assert f"is exactly 0 at these arguments, from {operation.partition(' ')[0]} (" in note
    assert f"test_replay.py:{here(program)}: " in note


def test_a_model_whose_every_gradient_is_0_is_a_finding_with_its_cause():
    report = bp.explain(bp.probe(Masked())(numbers(8, 3), numbers(8)))
    zero, cause = report
    assert zero.headline == "2 gradients, all of them exactly 0"
    assert (cause.kind, cause.source.line, cause.cause) == ("zero_times_zero", here(Masked.forward), zero.headline)


# when and how a program runs again


def recorded():
    program, arguments = FINDINGS["outer_product"]
    return bp.probe(program)(*arguments)


def counter():
    """Counts the runs where none of them is put back."""
    noted()

    def made(more=0):
        for _ in range(more):
            note()
        return len(held())

    return made


def counting(made, program=broadcasting):
    def counted(x, w, y):
        made(1)
        return program(x, w, y)

    return counted


@pytest.mark.parametrize("options", [{"experiments": False}, {"seconds": 0}])
def test_nothing_runs_where_experiments_are_not_wanted(options):
    made = counter()
    rec = bp.probe(counting(made))(*FINDINGS["outer_product"][1])
    report = bp.explain(rec, **options)
    assert (made(), report.ok) == (1, True) and not any("again" in note for note in report.notes)
    assert not bp.explain(rec).ok
    assert made() > 1


def test_nothing_runs_that_took_longer_than_so_many_seconds():
    rec = recorded()
    took = rec._rerun.seconds
    assert bp.explain(rec, seconds=took).ok
    assert not bp.explain(rec, seconds=took * 1.01).ok


def test_nothing_runs_where_a_value_is_asked_for_by_name():
    made = counter()
    rec = bp.probe(counting(made))(*FINDINGS["outer_product"][1])
    bp.explain(rec, "x")
    assert made() == 1


@pytest.mark.parametrize("name", [None, "x"])
def test_nothing_runs_while_a_block_records(name):
    def cut(x, w, y):
        return broadcasting(x.detach(), w, y)

    made = counter()
    rec = bp.probe(counting(made, cut))(*FINDINGS["outer_product"][1])
    with bp.probe() as block:
        bp.explain(rec, name)
    assert made() == 1
    assert not [one for one in block if "counted" in str(one)]
    bp.explain(rec, name)
    assert made() > 1


WRITTEN = "the arguments were written to since, so the program was not run again to look for useless gradients"


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("at", range(3))
def test_nothing_runs_where_an_argument_was_written_to_since(at, requires_grad):
    arguments = [one.clone().requires_grad_(requires_grad) for one in FINDINGS["outer_product"][1]]
    rec = bp.probe(broadcasting)(*arguments)
    with torch.no_grad():
        arguments[at].add_(1)
    report = bp.explain(rec)
    assert (report.ok, report.notes) == (True, (WRITTEN,))


def test_nor_where_it_was_not_recorded_or_stood_in_a_container():
    def of_batch(batch):
        return broadcasting(*batch["all"])

    arguments = [one.clone() for one in FINDINGS["outer_product"][1]]
    rec = bp.probe(of_batch, "return")({"all": arguments})
    assert bp.explain(rec).ok is False
    arguments[0].add_(1)
    assert WRITTEN in bp.explain(rec).notes


def test_nor_where_a_model_has_made_a_step_since():
    model = Masked()
    rec = bp.probe(model)(numbers(8, 3), numbers(8))
    with torch.no_grad():
        model.layer.weight.add_(1)
    assert WRITTEN in bp.explain(rec).notes


def test_what_the_program_itself_writes_is_no_write_since():
    calls = torch.zeros(1)

    def counted(x, w, y):
        with torch.no_grad():
            calls.add_(1)
        return broadcasting(x, w, y)

    rec = bp.probe(counted)(*FINDINGS["outer_product"][1])
    first, again = bp.explain(rec), bp.explain(rec)
    assert [one.headline for one in first] == [one.headline for one in again]
    assert not first.ok
    assert calls.item() == 1


@pytest.mark.parametrize("form", ["saved", "pickled", "copied"])
def test_a_recording_that_left_the_process_is_explained_without_a_run(form, tmp_path):
    rec = recorded()
    if form == "saved":
        rec.save(tmp_path / "it.bp")
        other = bp.load(tmp_path / "it.bp")
    else:
        other = pickle.loads(pickle.dumps(rec)) if form == "pickled" else copy.copy(rec)
    assert other._rerun is None
    report = bp.explain(other)
    assert (report.ok, report.heading) == (True, bp.explain(rec, experiments=False).heading)
    assert not bp.explain(rec).ok


def test_a_program_that_prints_does_not_print_again(capsys):
    def printing(x, w, y):
        print("called")
        return broadcasting(x, w, y)

    rec = bp.probe(printing)(*FINDINGS["outer_product"][1])
    assert capsys.readouterr().out == "called\n"
    assert bp.explain(rec).of_kind("outer_product")
    assert capsys.readouterr().out == ""


def test_a_program_that_writes_a_file_gets_a_note_and_writes_it_once(tmp_path):
    path = tmp_path / "log.txt"

    def logging(x, w, y):
        with path.open("a") as log:
            log.write("called\n")
        return broadcasting(x, w, y)

    report = bp.explain(bp.probe(logging)(*FINDINGS["outer_product"][1]))
    assert path.read_text() == "called\n"
    note = f"logging was not run again to look for useless gradients: it opens {path} for writing"
    assert (report.ok, report.notes) == (True, (note,))


def test_a_program_that_raises_when_it_runs_again_is_explained_as_it_was_recorded():
    made = counter()

    def once(x, w, y):
        if made(1) > 1:
            raise ValueError("only once")
        return broadcasting(x, w, y)

    report = bp.explain(bp.probe(once)(*FINDINGS["outer_product"][1]))
    (note,) = [one for one in report.notes if "again" in one]
    assert (made(), report.ok) == (2, True) and "it raised ValueError when it ran the second time" in note


class Trained(nn.Module):
    """A model with state in each place that a forward and backward pass writes to."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1))
        self.seen = torch.zeros(1)  # no buffer

    def forward(self, x, y):
        self.seen += len(x)
        noise = random.random() + np.random.rand()
        return (self.net(x) - y).pow(2).mean() * noise


@functools.cache
def trained():
    return Trained()


def of_a_cache(x, y):
    """Its model is found only when it is called."""
    return trained()(x, y)


@pytest.mark.parametrize("form", ["a model", "a function", "a function that has it from a cache"])
def test_explaining_leaves_the_state_as_it_was(form):
    torch.manual_seed(0)
    model = trained()
    model(numbers(8, 3), numbers(8)).backward()
    target = {"a model": model, "a function": lambda x, y: model(x, y)}.get(form, of_a_cache)
    rec = bp.probe(target)(numbers(8, 3), numbers(8))
    before, seen = state_of(model), model.seen.clone()
    own = [model.seen, *(parameter.grad for parameter in model.parameters()), *model.buffers()]
    report = bp.explain(rec)
    assert report.of_kind("outer_product")
    assert same(state_of(model), before)
    assert torch.equal(model.seen, seen)
    now = [model.seen, *(parameter.grad for parameter in model.parameters()), *model.buffers()]
    assert [*map(id, now)] == [*map(id, own)]


def test_a_recording_that_was_loaded_has_a_note_on_a_gradient_that_is_0(tmp_path):
    bp.probe(clamped)(numbers(8), torch.tensor(-3.0)).save(tmp_path / "rec")
    report = bp.explain(bp.load(tmp_path / "rec"))
    assert report.ok
    assert [note for note in report.notes if note.startswith("the gradient of 'scale' is exactly 0 here; ")]
    assert bp.explain(bp.load(tmp_path / "rec"), "scale").of_kind("zero_derivative")


def in_low_precision(x, w, y):
    assert (x @ w).dtype == torch.bfloat16
    return broadcasting(x, w, y)


def test_a_program_runs_again_in_the_modes_of_its_recording():
    with torch.autocast("cpu", torch.bfloat16):
        rec = bp.probe(in_low_precision)(*FINDINGS["outer_product"][1])
    with torch.inference_mode():
        assert bp.explain(rec).of_kind("outer_product")
    assert not torch.is_autocast_enabled("cpu")


def test_it_runs_no_more_often_than_it_may():
    made = counter()
    rec = bp.probe(counting(made))(*FINDINGS["outer_product"][1])
    assert bp.explain(rec, runs=1).ok
    assert made() == 1
    assert not bp.explain(rec, runs=2).ok
    assert 1 < made() <= 3
    with pytest.raises(bp.BadOption, match="runs"):
        bp.explain(rec, runs=-1)


# what goes on whatever is put back


class Polite:
    """It has the names of a stream, and is written by the program."""

    def fileno(self):
        return 0


class Named(socket.socket):
    """A stream whose class is derived by the program."""


@pytest.mark.parametrize(("kind", "expected"), [(Polite, False), (Named, True), (socket.socket, True)])
def test_a_class_of_the_program_goes_on_only_as_one_that_it_is_derived_from(kind, expected):
    assert is_stream(kind) is expected


def test_whose_class_it_is_is_asked_only_of_what_has_the_names_of_a_stream(monkeypatch):
    """A program may hold thousands of objects, and each of them is asked about before a run."""
    asked = []
    monkeypatch.setattr(taken, "is_of_program", lambda kind: asked.append(kind) or False)
    assert not any(map(is_stream, (dict, torch.nn.Linear, torch.Tensor, Polite.__base__)))
    assert asked == []
    assert is_stream(socket.socket)
    assert asked


def test_files_that_tensorflow_converts_functions_into_are_no_effect(tmp_path):
    with harmless("f"):
        file = tempfile.NamedTemporaryFile("w", prefix="__autograph_generated_file", dir=tmp_path, delete=False)
    file.close()
    with pytest.raises(StoppedAtEffect, match="opens .*other.* for writing"), harmless("f"):
        tempfile.NamedTemporaryFile("w", prefix="other", dir=tmp_path)


def test_functions_of_libraries_run_at_exit_and_those_of_the_script_do_not(monkeypatch):
    registered = []
    monkeypatch.setattr(script_experiments, "REGISTER", lambda function, *args: registered.append((function, args)))
    for each in (noted, tempfile.gettempdir):
        assert script_experiments._not_registered(each, 1) is each
    assert registered == [(tempfile.gettempdir, (1,))]
