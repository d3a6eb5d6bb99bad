"""A watched model that is compiled whole: the rows of the uncompiled one, in two graphs, and the same training."""

from contextlib import nullcontext

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import message
from backprobe.backends.torch import compiled_before, compiled_rows
from sampled import sampled
from watched import Net, batches, sgd, trained

pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),  # of Dynamo's inputs
]


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()


class Compiled:
    """A model, made the same each time, of which something is compiled; ``forward`` is what a training calls."""

    def __init__(self, how, kind=Net):
        torch.manual_seed(0)
        self.model, self.graphs = kind(), CompileCounterWithBackend("aot_eager")
        self.watched = self.forward = self.model
        HOW[how](self)

    def compiled(self, what):
        return torch.compile(what, backend=self.graphs, fullgraph=True)

    def whole(self):
        self.watched = self.forward = self.compiled(self.model)

    def in_place(self):
        self.model.compile(backend=self.graphs, fullgraph=True)

    def part(self):
        self.model.body = self.compiled(self.model.body)

    def function(self):
        model = self.model
        self.forward = self.compiled(lambda x: model(x))

    def train(self, folder=None, count=4, **options):
        torch.manual_seed(1)
        optimizer = sgd(self.model)
        if folder is None:
            trained(self.forward, optimizer, batches(count))
            return self
        with bp.watch(self.watched, folder, optimizer=optimizer, every=2, **options):
            trained(self.forward, optimizer, batches(count))
        return self

    def parameters(self):
        return list(self.model.parameters())


HOW = {
    "eager": lambda made: None,
    "a model": Compiled.whole,
    "in place": Compiled.in_place,
    "a part": Compiled.part,
    "a function": Compiled.function,
}
WHAT = {
    "a model": "the model (Net)",
    "in place": "the model (Net)",
    "a part": "'body'",
    "a function": "Compiled.function.<locals>.<lambda>()",
}
"""What messages call each of them."""


def rows(folder):
    with bp.open_run(folder) as run:
        return {
            (int(step), name, field): number
            for step in run.steps
            for name, fields in run.at(step).items()
            for field, number in fields.items()
        }


def same_rows(folder, other):
    found, expected = rows(folder), rows(other)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("how", sampled(WHAT, "a model", "a part"))
def test_rows_and_training_are_those_of_the_uncompiled_and_unwatched_model(tmp_path, how):
    """A write in place and a module that returns what one inside of it returned included."""
    bare = Compiled(how).train()
    watched = Compiled(how).train(tmp_path / "compiled")
    Compiled("eager").train(tmp_path / "eager")
    assert (bare.graphs.frame_count, watched.graphs.frame_count) == (1, 2)  # for steps that are taken, and not
    assert all(map(torch.equal, watched.parameters(), bare.parameters()))
    same_rows(tmp_path / "compiled", tmp_path / "eager")
    with bp.open_run(tmp_path / "compiled") as run:
        assert [run.at(step).backwards for step in run.steps] == [1, 1]


class Checkpointed(Net):
    def forward(self, x):
        return self.head(checkpoint(self.body, self.embed(x), use_reentrant=False))


class Many(Checkpointed):
    """Containers, numbers that are no floats, transforms, no_grad, autocast, complex and no numbers."""

    def __init__(self):
        super().__init__()
        self.pair, self.fourier, self.empty, self.coarse = Pair(), Fourier(), nn.Identity(), nn.Linear(4, 4)

    def forward(self, x):
        first, rest = self.pair(self.embed(x))
        slope = torch.func.grad(lambda y: self.coarse(y).sum())(first)
        with torch.no_grad():
            slope = slope + self.embed(x)
        with torch.autocast("cpu", torch.bfloat16):
            coarse = self.coarse(first + torch.vmap(self.embed)(x))
        mixed = self.fourier(coarse.float() + rest["a.b"] + slope).abs()
        return self.head(checkpoint(self.body, mixed, use_reentrant=False)) + self.empty(x[:0]).sum()


class Pair(nn.Module):
    def forward(self, x):
        return x * 2, {"a.b": x + 1, "none": None, "numbers": x.argmax()}


class Fourier(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x)


@pytest.mark.sweep
def test_a_model_of_many_kinds_of_code_has_the_same_rows(tmp_path):
    bare = Compiled("a model", Many).train()
    watched = Compiled("a model", Many).train(tmp_path / "compiled")
    Compiled("eager", Many).train(tmp_path / "eager")
    assert watched.graphs.frame_count == 2
    assert all(map(torch.equal, watched.parameters(), bare.parameters()))
    same_rows(tmp_path / "compiled", tmp_path / "eager")


@pytest.mark.parametrize(
    "options", [{}, {"what": "grad"}, pytest.param({"what": ("value", "param")}, marks=pytest.mark.sweep)], ids=str
)
def test_what_a_checkpoint_around_a_compiled_part_computes_again_is_counted_once(tmp_path, options):
    Compiled("a part", Checkpointed).train(tmp_path / "compiled", **options)
    Compiled("eager", Checkpointed).train(tmp_path / "eager", **options)
    same_rows(tmp_path / "compiled", tmp_path / "eager")


def test_micro_batches_and_an_evaluation(tmp_path):
    made = Compiled("a model")
    optimizer = sgd(made.model)
    with bp.watch(made.watched, tmp_path, optimizer=optimizer):
        for pair in batches(4).split(2):
            for x in pair:
                made.forward(x).sum().backward()
            with torch.no_grad():
                made.forward(pair[0])
            optimizer.step()
            optimizer.zero_grad()
    with bp.open_run(tmp_path) as run:
        for step in (0, 1):
            found = run.at(step)
            assert (found.backwards, found["body.0"]["value.count"], found["body.0"]["grad.count"]) == (2, 40, 40)
            assert (found["return"]["grad.min"], found["return"]["grad.max"]) == (1, 1)


@pytest.mark.parametrize("dtype", sampled([torch.float32, torch.float64], torch.float32), ids=str)
def test_batches_of_several_sizes_are_compiled_as_often_as_without_a_watch(tmp_path, dtype):
    made, bare, eager = Compiled("a model"), Compiled("a model"), Compiled("eager")
    sizes = [torch.ones(size, 3, dtype=dtype) / size for size in (2, 5, 3, 7)]
    for one, folder in ((bare, None), (made, "compiled"), (eager, "eager")):
        torch._dynamo.reset()
        one.model.to(dtype)
        optimizer = sgd(one.model)
        with bp.watch(one.watched, tmp_path / folder, optimizer=optimizer) if folder else nullcontext():
            trained(one.forward, optimizer, sizes)
    assert made.graphs.frame_count == bare.graphs.frame_count
    assert all(map(torch.equal, made.parameters(), bare.parameters()))
    same_rows(tmp_path / "compiled", tmp_path / "eager")


def test_selected_names_alone_are_in_the_graph(tmp_path):
    made = Compiled("a model").train(tmp_path, select=["body.1", "head.weight"])
    assert made.graphs.frame_count == 2
    with bp.open_run(tmp_path) as run:
        assert run.names == ["body.1", "head.weight"]


def test_after_the_watch_nothing_is_left_in_the_graph(tmp_path):
    made = Compiled("a model").train(tmp_path)
    bare = Compiled("a model").train().train()
    made.train()
    assert all(map(torch.equal, made.parameters(), bare.parameters()))
    assert not torch.nn.modules.module._global_forward_hooks


# what was compiled before


@pytest.mark.parametrize("how", sampled(WHAT, "in place", "a function"))
def test_what_ran_compiled_before_the_watch_is_an_error_that_names_it(tmp_path, how):
    made = Compiled(how).train()
    text = message(bp.Unsupported, lambda: made.train(tmp_path))
    assert text.startswith(f"{WHAT[how]} ")
    assert "was compiled and run before it was watched" in text
    assert text.splitlines()[1:] == [
        f"  asked: bp.watch({type(made.watched).__name__}, {str(tmp_path)!r})",
        "  found: it has run in this step, and no module inside of it was seen",
        "  why:   its code was fixed when it was compiled, and runs on without what a watch puts in",
        "  next:  call bp.watch(...) before what is compiled runs for the first time, or torch.compiler.reset() before "
        "bp.watch(...)",
    ]
    torch.compiler.reset()
    made.train(tmp_path)
    with bp.open_run(tmp_path) as run:
        assert "body.0" in run.at(0)


def test_objects_are_not_looked_through_in_each_step_because_something_else_was_compiled(tmp_path, monkeypatch):
    looked = []
    another = torch.compile(lambda x: x.sin() * 2, backend="eager")
    another(torch.ones(3, requires_grad=True)).sum().backward()
    monkeypatch.setattr(compiled_before, "_living", lambda kind: looked.append(kind) or iter(()))
    torch.manual_seed(0)
    model = Net()
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        trained(model, optimizer, batches(6))
    assert len(looked) == 2  # in the first step: compiled modules, and functions


def test_what_was_compiled_for_an_evaluation_alone_is_compiled_anew(tmp_path):
    made = Compiled("a model")
    with torch.no_grad():
        made.forward(batches(1)[0])
    made.train(tmp_path)
    with bp.open_run(tmp_path) as run:
        assert "body.0" in run.at(0)


def test_another_model_of_the_same_class_that_was_compiled_is_no_error(tmp_path):
    Compiled("a model").train()
    made = Compiled("eager")
    made.model.unused = nn.Linear(2, 2)
    made.train(tmp_path)


# the same rows in more than one graph of a pass


class Broken(nn.Module):
    """Dynamo makes two graphs of it, and one module is in both."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        hidden = torch.relu(self.layer(x))
        torch._dynamo.graph_break()
        return self.head(torch.relu(self.layer(hidden)))


def twice(forward, folder, model, watched):
    """Two steps, each of two calls before one backward; under a watch where there is a folder."""
    torch.manual_seed(1)
    optimizer = sgd(model)
    with nullcontext() if folder is None else bp.watch(watched, folder, optimizer=optimizer):
        for _ in range(2):
            (forward(torch.randn(3, 4)).square().mean() + forward(torch.randn(3, 4)).square().mean()).backward()
            optimizer.step()
            optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_calls_before_one_backward_and_a_module_in_two_graphs_share_their_rows(tmp_path, backend):
    """Autograd finds nothing modified that it has saved: rows of gradients are no arguments of a graph."""
    trainings = []
    for folder in (None, tmp_path / "compiled", tmp_path / "eager"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Broken()
        forward = model if folder == tmp_path / "eager" else torch.compile(model, backend=backend)
        trainings.append(twice(forward, folder, model, forward))
    assert all(map(torch.equal, trainings[0], trainings[1]))
    same_rows(tmp_path / "compiled", tmp_path / "eager")


def test_where_the_compiler_asks_for_no_effects_backward_goes_on_with_copies(tmp_path, monkeypatch):
    """As in older releases: one call before each backward has the same rows, and so have two."""
    monkeypatch.setattr(compiled_rows, "FINDS_EFFECTS", False)
    test_calls_before_one_backward_and_a_module_in_two_graphs_share_their_rows(tmp_path / "twice", "aot_eager")
    Compiled("a model").train(tmp_path / "compiled")
    Compiled("eager").train(tmp_path / "eager")
    same_rows(tmp_path / "compiled", tmp_path / "eager")


def test_one_compiled_model_is_watched_again(tmp_path):
    """What was compiled for the rows of the first watch is compiled anew for those of the second."""
    made, plain = Compiled("a model"), Compiled("eager")
    for name in ("first", "second"):
        made.train(tmp_path / name)
        plain.train(tmp_path / f"{name}-eager")
        same_rows(tmp_path / name, tmp_path / f"{name}-eager")
