"""``bp.memory``: planted leaks are named with their line, healthy trainings are silent, bytes are those of graphs."""

import inspect
import json
import linecache
import warnings
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import backprobe as bp
import memory_page
from asked import message
from commands import forked, in_folder, invoked, printed
from memory_programs import HEALTHY, LEAKS, a_local_list, lists_by_name, setting, step


class Watch:
    """Opens a block around the steps of a program, and keeps its report."""

    def __call__(self, model):
        self.block = bp.memory(model)
        return self

    def __enter__(self):
        self.report = self.block.__enter__()

    def __exit__(self, *error):
        self.block.__exit__(*error)

    def step(self):
        self.report.step()


def reported(program):
    watch = Watch()
    program(watch)
    return watch.report


def line_of(program):
    """The file, number and text of the line with the mark."""
    lines, first = inspect.getsourcelines(program)
    numbers = [first + at for at, text in enumerate(lines) if "# here" in text]
    return numbers[0] if numbers else None


@pytest.mark.parametrize("program", LEAKS, ids=lambda program: program.__name__)
def test_what_outlives_its_step_is_named_with_its_line(program):
    report = reported(program)
    (held,) = report.held
    kind, path = LEAKS[program]
    assert (held.kind, held.path) == (kind, path)
    assert not report.ok and held.text in str(report) and held.next in str(report)
    line = line_of(program)
    if line is not None:
        assert held.source.line == line, held.text
        assert linecache.getline(held.source.file, line).strip() == held.source.text or kind == "hooks"


@pytest.mark.parametrize("program", HEALTHY, ids=lambda program: program.__name__)
def test_a_healthy_training_is_silent(program):
    report = reported(program)
    assert report.held == () and report.ok
    assert report.steps >= 3 and report.nbytes > 0


def test_a_running_sum_is_found_beside_the_loss_of_the_step_before():
    """The loss before is of one earlier step, which is no growth, and used to hide what leads back to all of them."""
    model, total, loss = nn.Linear(3, 1), torch.zeros(()), None
    with bp.memory(model) as report:
        for x in torch.randn(5, 4, 3):
            before = loss
            loss = model(x).square().mean()
            total = total + loss
            if before is None or loss < before:
                loss.backward()
            report.step()
    assert [(one.path, one.graphs) for one in report.held] == [("total", 4)]


def test_the_loss_of_the_step_before_alone_is_no_growth():
    model, loss = nn.Linear(3, 1), None
    with bp.memory(model) as report:
        for x in torch.randn(5, 4, 3):
            before, loss = loss, model(x).square().mean()
            loss.backward()
            report.step()
    assert before is not None and report.ok


def test_what_to_write_in_the_place_of_the_line():
    (held,) = reported(a_local_list).held
    assert held.next.startswith("losses.append(loss.detach())")
    assert held.graphs == 4
    (held,) = reported(lists_by_name).held
    assert held.next.startswith('history.setdefault("loss", []).append(loss.detach())')


# bytes


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x):
        h = self.norm(self.first(x)).tanh()
        h = h * h.sigmoid()
        return self.second(nn.functional.dropout(h, 0.5))


def of_graph(output):
    """The truth: the bytes of distinct storages that the nodes of a graph keep, but for those of parameters."""
    found, seen, left = {}, set(), [output.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        left += [below for below, _ in node.next_functions]
        for name in dir(node):
            if name.startswith("_saved_"):
                held = getattr(node, name)
                for one in held if isinstance(held, tuple | list) else (held,):
                    if isinstance(one, torch.Tensor):
                        found[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
    return found


MODELS = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), (5, 8)),
    "block": (Block, (6, 16)),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2)),
        (3, 2, 8, 8),
    ),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)),
    "embedding": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Softmax(-1), nn.Linear(8, 8), nn.Softmax(-1)), (7, 4)),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
def test_bytes_are_those_of_the_distinct_storages_of_the_graph(make):
    torch.manual_seed(0)
    model, shape = make[0](), make[1]
    x = torch.randn(shape)
    parameters = {own.untyped_storage().data_ptr() for own in model.parameters()}
    with bp.memory(model) as report:
        out = model(x).square().mean()
        truth = {place: size for place, size in of_graph(out).items() if place not in parameters}
    assert report.nbytes == pytest.approx(sum(truth.values()), rel=0.05)
    assert report.peak == pytest.approx(sum(truth.values()), rel=0.05)
    for what in ("line", "module", "operation"):
        assert sum(report.by(what).values()) == report.nbytes


RESIDENT = """
import pathlib, resource, torch, backprobe as bp
def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
torch.set_num_threads(1)
x = torch.ones(10_000_000, requires_grad=True)  # of more than 32 MB, which glibc gives back at once
x[:9].tanh().exp()  # what the first call loads is no memory of the tensors
with bp.memory() as report:
    before = resident()
    out = x.tanh().exp().tanh()
    grown = resident() - before
print(report.peak, grown)
"""


def test_the_peak_is_what_the_process_holds_more():
    told, grown = map(int, printed(forked("-c", RESIDENT)).split())
    assert told == 3 * 40_000_000
    assert told == pytest.approx(grown, rel=0.05)


def test_bytes_are_by_line_module_and_operation():
    model = Block()
    with bp.memory(model) as report:
        model(torch.randn(64, 16)).sum().backward()
    assert {one.source.file for one in report.saved} == {__file__}
    assert "h = h * h.sigmoid()" in {one.source.text for one in report.saved}
    assert {"norm", "first", "second", ""} <= {*report.by("module")} | {""}
    assert "layer_norm" in report.by("operation") and "tanh" in report.by("operation")
    text = str(report)
    assert text.startswith(f"{report.nbytes / 1000:.1f} kB kept for backward") and "layer_norm" in text


def test_what_backward_has_let_go_of_is_no_longer_counted():
    model = nn.Linear(8, 8)
    with bp.memory(model) as report:
        for _ in range(4):
            model(torch.randn(16, 8)).square().sum().backward()
            report.step()
    one = 16 * 8 * 4
    assert report.peak == 2 * one  # the input, and what is squared
    assert report.nbytes == 2 * one and report.steps == 4


def test_a_checkpoint_keeps_its_input_alone():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)))
    x = torch.randn(32, 8, requires_grad=True)
    with bp.memory(model) as plain:
        model(x).sum().backward()
    with bp.memory(model) as saving:
        checkpoint(model, x, use_reentrant=False).sum().backward()
    assert saving.nbytes < plain.nbytes


def test_gradients_and_results_are_bitwise_the_same():
    def train(block):
        torch.manual_seed(0)
        model = Block()
        with block(model):
            out = model(torch.randn(4, 16))
            out.sum().backward()
        return out, [own.grad for own in model.parameters()], torch.get_rng_state()

    class Nothing:
        def __init__(self, model): ...
        def __enter__(self): ...
        def __exit__(self, *error): ...

    (a, gradients, state), (b, same, other) = train(bp.memory), train(Nothing)
    assert torch.equal(a, b) and all(map(torch.equal, gradients, same)) and torch.equal(state, other)


def test_second_derivatives_go_through_what_was_kept():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with bp.memory():
        (first,) = torch.autograd.grad((x**3).exp().log().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 6 * x.detach())


def test_a_write_in_place_is_an_error_as_it_is_without_a_block():
    x = torch.ones(3, requires_grad=True)
    with bp.memory():
        y = x.exp()
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.last(self.first(x).tanh())


@pytest.mark.parametrize("way", ["model", "method", "function"])
def test_code_that_is_compiled_whole_is_measured_and_nothing_is_warned_of(way):
    torch.manual_seed(0)
    model = Deep()
    x = torch.randn(8, 3)
    bare = torch.autograd.grad(model(x).square().mean(), model.first.weight)[0]
    compiled = partial(torch.compile, backend="aot_eager", fullgraph=True)
    called = model
    if way == "method":
        model.compile(backend="aot_eager", fullgraph=True)
    else:
        called = compiled(model) if way == "model" else compiled(lambda given: model(given))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with bp.memory(called if way == "model" else model) as report:
            for _ in range(3):
                optimizer.zero_grad()
                called(x).square().mean().backward()
                optimizer.step()
    assert not [one for one in warned if "hook" in str(one.message)]
    assert report.ok and report.steps == 3 and torch.equal(model.first.weight.grad, bare)
    assert {row.module for row in report.saved} <= {"", "Deep"}
    assert report.nbytes >= 8 * (3 + 4) * 4  # the inputs of the two layers
    torch.compiler.reset()


def test_nothing_is_left_behind():
    from torch.nn.modules import module as modules

    before = len(modules._global_forward_hooks), len(modules._global_forward_pre_hooks)
    model = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="mine"), bp.memory(model):
        raise ValueError("mine")
    assert (len(modules._global_forward_hooks), len(modules._global_forward_pre_hooks)) == before
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda own: kept.append(own) or own, lambda own: own):
        model(torch.ones(2))
    assert kept  # the hooks of the program are those that act


def test_the_page_has_the_planted_leaks():
    assert memory_page.PAGE.read_text() == memory_page.made(), "python tests/memory_page.py"
    for program, said in LEAKS.items():
        assert memory_page.programs("PyTorch")[0][program.__name__] == said


def test_few_steps_say_nothing_of_earlier_ones():
    model, optimizer, batches = setting()
    losses = []
    with bp.memory(model) as report:
        for x in batches[:2]:
            losses.append(model(x).mean())
            step(losses[-1], optimizer)
    assert report.held == () and report.steps == 2


def test_shown():
    report = reported(a_local_list)
    assert repr(report).startswith("<backprobe.MemoryReport: ") and "\n" not in repr(report)
    assert "losses" in report._repr_html_()
    assert "by is one of line, module, operation" in message(bp.BadOption, lambda: report.by("layer"))
    assert "the block of this report is over" in message(bp.BadOption, report.step)
    assert bp.MemoryReport().ok


# the command


SCRIPT = """
import sys
import torch

def main(steps):
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        loss = model(torch.randn(32, 64)).square().mean()
        losses.append(loss{end})
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("done")

main(int(sys.argv[1]))
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs the script, of which the end of one line is given."""

    def run(*words, end=""):
        with in_folder(tmp_path, monkeypatch, {"train.py": SCRIPT.format(end=end)}):
            return invoked("memory", *words)

    return run


def test_a_script_is_stopped_after_ten_steps(command):
    status, out, err = command("train.py", "100")
    assert status == 1 and "done" not in out and "stopped after 10 steps" in err
    assert "`losses[…]`, a variable of main(), keeps the graphs of 9 earlier steps" in out
    assert "train.py:11: `losses.append(loss)`" in out and "next: losses.append(loss.detach())" in out
    assert "tried: run again with this line, 10 steps leave nothing of earlier ones there" in out


def test_a_script_as_data(command):
    status, out, _ = command("--json", "--steps", "6", "train.py", "100")
    found = json.loads(out)
    assert status == 1 and found["steps"] == 6
    assert found["held"][0]["path"] == "losses[…]" and found["held"][0]["source"] == "train.py:11"
    assert sum(one["nbytes"] for one in found["saved"]) == found["nbytes"] == found["peak"]


def test_a_healthy_script_runs_to_its_end(command):
    status, out, err = command("train.py", "6", end=".item()")
    assert status == 0 and "done" in out and "stopped" not in err
    assert "kept for backward in the largest step" in out and "next" not in out


def test_a_short_script_with_a_leak_is_told_though_its_function_is_over(command):
    status, out, _ = command("train.py", "5")
    assert status == 1 and "done" in out and "keeps the graphs of 4 earlier steps" in out


TWICE = """
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(8):
    loss = model(torch.randn(3, 4)).square().mean()
    if step % 2:
        losses.append(loss)
    else:
        losses.append(loss)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    {last}
"""


@pytest.mark.parametrize(
    ("last", "words", "said"),
    [
        ("pass", (), ""),  # the other of both lines keeps graphs all the same
        ("open('log', 'a').close()", (), "not tried: run again, the script opens log for writing"),
        ("pass", ("--no-experiments",), "next: losses.append(loss.detach())"),
    ],
    ids=["that does not help", "with effects outside", "not asked for"],
)
def test_a_remedy(tmp_path, monkeypatch, last, words, said):
    with in_folder(tmp_path, monkeypatch, {"twice.py": TWICE.format(last=last)}):
        status, out, _ = invoked("memory", "--json", *words, "twice.py")
        (held,) = json.loads(out)["held"]
        assert status == 1 and held["path"] == "losses[…]"
        assert said in f"next: {held['next']}; {held['tried']}" and bool(held["next"]) == bool(said)
        assert held["tried"].startswith("not tried") == said.startswith("not tried")
