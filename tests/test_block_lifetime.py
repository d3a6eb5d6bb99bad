"""The life of a block: nested, left early, read while open, under a debugger, many times."""

import bdb
import contextlib
import gc
import sys
import threading
import trace
import tracemalloc
import weakref

import coverage
import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message, says
from backprobe.record.reasons import Note
from block_cases import Net, case, same, scalar
from sampled import count, drawn

pytestmark = pytest.mark.usefixtures("leaves_nothing")

LIFE, TRACERS = "Nesting, errors, and reading early", "Debuggers and coverage"


def doubled(value):
    twice = value * 2
    return twice


# nested


@case("a block in a block: each has the gradients of its own `backward()` calls", LIFE)
def test_a_block_in_a_block(x):
    with bp.probe() as outer:
        u = x * 2
        with bp.probe() as inner:
            v = doubled(u)
            v.sum().backward(retain_graph=True)
        w = v * 3
        w.sum().backward()
    assert [*inner] == ["u", "v", "backward()"]
    assert inner["/doubled:twice"] is inner["v"]
    says(inner, grads={"u": torch.full((3,), 2.0), "v": torch.ones(3)})
    assert [*outer] == ["x", "u", "v", "backward()#0", "w", "backward()#1"]
    says(outer, grads={"x": x.grad, "v": torch.full((3,), 4.0)})
    assert outer["/doubled:twice"] is outer["v"]


@case("the function and model forms in a block", LIFE)
def test_other_forms_in_a_block(x):
    model = Net()
    with bp.probe() as outer:
        u = x * 2
        function = bp.probe(doubled, of=lambda y: y.sum())(u)
        of_model = bp.probe(model, of=lambda y: y.sum())(u)
        u.sum().backward()
    says(function, grads={"twice": torch.ones(3), "value": torch.full((3,), 2.0)})
    assert of_model["weight"].status == "ok"
    assert model.weight.grad is None
    assert same(outer["u"].grad, torch.ones(3))  # of its own backward() alone
    assert not any("/doubled" in name for name in outer)

    assert outer.notes == ("doubled was not followed: it is already being probed",)


def opens_a_block(value):
    with bp.probe():
        u = value * 3
    return u.sum()


@case("a plain block in a probed function", LIFE, "`NoSource`: probe the function, or open the block around it")
def test_a_block_in_a_probed_function(x):
    with pytest.raises(bp.NoSource, match="opens_a_block is already being probed") as caught:
        bp.probe(opens_a_block)(x)
    assert "next:  probe the function alone, or open the block around what calls it" in str(caught.value)
    caught.value.__traceback__ = None
    model = Net()

    def steps(value):
        with bp.probe(model) as rec:
            model(value).sum().backward()
        found.append(rec)
        return value.sum()

    found = []
    assert same(bp.probe(steps)(x)["value"].grad, torch.ones(3))
    assert same(found[0]["weight"].grad, model.weight.grad)


@case(
    "a model block inside a plain block, and the reverse",
    LIFE,
    "works; locals that both record belong to the model block",
)
def test_a_model_block_in_a_plain_block(x):
    model = Net()
    with bp.probe() as plain:
        with bp.probe(model, ["**", "**:*"]) as modules:
            y = model(x)
            loss = y.sum()
            loss.backward()
    assert same(modules["weight"].grad, model.weight.grad)
    # names come from one of them: the forwards that the block around the model has rewritten are its own
    assert plain.notes == ("Net.forward was not followed: it is already being probed",)
    assert modules["hidden"].status == "ok"
    with bp.probe(model) as modules, bp.probe() as plain:
        y = model(x)
        loss = y.sum()
        loss.backward()
    says(plain, values={"/Net:hidden": x.detach() * model.weight.detach()}, grads={"y": torch.ones(3)})
    assert same(modules["return"].grad, torch.ones(3))


@case("one `Probe` object for several blocks, one after the other and nested", LIFE)
def test_one_probe_several_times(x):
    model = Net()
    probe, around = bp.probe(), bp.probe(model)
    for _ in range(2):
        with probe as rec:
            u = x * 2
            u.sum().backward()
        assert same(rec["u"].grad, torch.ones(3))
    with probe as outer:
        u = x * 2
        with probe as inner:
            v = u * 3
            v.sum().backward()
        with around as first:
            with around as second:
                model(x).sum().backward()
    assert [*inner] == ["u", "v", "backward()"]
    assert "v" in outer
    assert same(first["weight"].grad, second["weight"].grad)
    assert probe.open_blocks in ({}, {k: [] for k in probe.open_blocks})


# errors


@case("an error in the block: the same object, with a note; what was recorded stays readable", LIFE)
def test_an_error_in_a_block(x):
    error = ValueError("mine")
    with pytest.raises(ValueError) as caught, bp.probe() as rec:
        u = x * 2
        raise error
    assert caught.value is error
    assert error.args == ("mine",)
    (note,) = error.__notes__
    assert note.startswith("backprobe: raised while running a block under a probe; the last name bound was 'u' (")
    assert note.endswith(": u = x * 2)")
    says(rec, statuses={"u": "backward_not_run"}, values={"u": u.detach()})
    error.__traceback__ = None

    def fails(value):
        before = value * 3
        raise error

    model = Net()
    with pytest.raises(ValueError), bp.probe(model) as rec:
        model(x).sum().backward()
        fails(x)
    assert same(rec["weight"].grad, model.weight.grad)
    with bp.probe() as rec:
        u = x * 2
        try:
            fails(u)
        except ValueError as caught:
            v = u * 4
        finally:
            w = v + 1
        w.sum().backward()
    assert same(rec["/fails:before"].value, 3 * u.detach())
    assert rec["/fails:before"].status == "not_connected"
    assert same(rec["v"].grad, torch.ones(3))
    error.__traceback__ = None


@case("`KeyboardInterrupt` and `SystemExit` out of a block", LIFE)
def test_an_interrupt(x):
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
        before = sys.gettrace()
        with pytest.raises(kind), bp.probe() as rec:
            u = x * 2
            raise kind
        assert sys.gettrace() is before
        assert rec["u"].status == "backward_not_run"
        with pytest.raises(kind), bp.probe(Net()) as rec:
            raise kind


@case("a block without `backward()`", LIFE, "`backward_not_run`")
def test_no_backward(x):
    model = Net()
    with bp.probe() as plain:
        u = x * 2
        n = u.detach()
    assert plain["u"].status == "backward_not_run"
    assert plain["u"].reason == ("backward() was not called during the recording, or reached no recorded value")
    assert plain["n"].status == "detached"
    with bp.probe(model) as rec:
        model(x)
    assert {entry.status for entry in rec.values()} == {"backward_not_run"}
    assert [*rec.outputs] == []
    assert "backward_not_run" in str(rec)


@case("reading while the block is open: the state at that moment", LIFE)
def test_reading_while_the_block_is_open(x):
    with bp.probe() as rec:
        assert len(rec) == 0
        u = x * 2
        assert [*rec] == ["x", "u"]
        early = rec["u"]
        assert early.status == "backward_not_run"
        v = u * 3
        v.sum().backward()
        assert rec["u"].grad.tolist() == [3, 3, 3]
        assert early.status == "backward_not_run"  # an entry is as it was when it was read
        again = rec["u"]
        w = x * 5
        w.sum().backward()
        assert again.grad.tolist() == [3, 3, 3]
        assert rec["x"].grad.tolist() == [11, 11, 11]
        text = str(rec)
        assert "backward()#1" in text
    assert same(rec["x"].grad, x.grad)
    assert [*rec] == ["x", "u", "v", "backward()#0", "w", "backward()#1"]


# other tracers


class Debugger(bdb.Bdb):
    """Steps through everything, and keeps what it was told."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def user_line(self, frame):
        if frame.f_code.co_filename == __file__:
            self.lines.append((frame.f_code.co_name, frame.f_lineno))
        self.set_step()


def watched_program(x, probe):
    before = x * 1
    with probe as rec:
        u = before * 2
        v = doubled(u)
        for part in (u, u):
            v = v + part
        v.sum().backward()
    after = doubled(x)
    return rec


def assert_seen(rec):
    assert [*rec] == ["before", "u", "v#0", "v#1", "v#2", "backward()"]
    assert rec["/doubled:twice"] is rec["v#0"]
    assert all(entry.status == "ok" for entry in rec.values())


@case("`bdb.Bdb`, as under pdb: it sees every line before, in and after the block", TRACERS)
def test_a_debugger(x):
    told = []
    for probe in (contextlib.nullcontext(), bp.probe()):
        debugger = Debugger()
        rec = debugger.runcall(watched_program, x, probe)
        told.append(debugger.lines)
    assert_seen(rec)
    assert told[0] == told[1]
    assert [line for line in told[0] if line[0] == "doubled"]


def test_a_debugger_that_starts_in_the_block(x, capsys):
    debugger = Debugger()
    with bp.probe() as rec:
        u = x * 2
        debugger.set_trace()
        v = doubled(u)
        sys.settrace(None)
        w = v + 1
    assert sys.gettrace() is None
    assert capsys.readouterr() == ("", "")  # bdb prints a complaint for each event that it does not know
    assert ("doubled", doubled.__code__.co_firstlineno + 1) in debugger.lines
    assert rec.record.notes == (Note("tracer_replaced"),)
    assert [*rec][:2] == ["x", "u"]
    sys._getframe().f_trace = None


@case("stdlib `trace.Trace` and `coverage`: the same lines are counted", TRACERS)
def test_line_counters(x, tmp_path):
    counted = []
    for probe in (contextlib.nullcontext(), bp.probe()):
        counter = trace.Trace(count=1, trace=0)
        rec = counter.runfunc(watched_program, x, probe)
        counted.append({place: count for place, count in counter.results().counts.items() if place[0] == __file__})
    assert_seen(rec)
    assert counted[0] == counted[1]
    for core in ("ctrace", "pytrace"):
        counted = []
        for probe in (contextlib.nullcontext(), bp.probe()):
            config = tmp_path / "config"
            config.write_text(f"[run]\ncore = {core}\nbranch = true\n")
            cover = coverage.Coverage(data_file=None, config_file=str(config), include=[__file__])
            cover.start()
            rec = watched_program(x, probe)
            after = doubled(x)
            cover.stop()
            assert sys.gettrace() is None
            counted.append(sorted(cover.get_data().arcs(__file__)))
            cover.get_data().close(force=True)  # a database in memory: Python 3.13 warns of one that is left open
        assert_seen(rec)
        assert counted[0] == counted[1], core


@case("another tracer set in the block", TRACERS, "a note says that what ran then is not seen")
def test_a_tracer_that_is_set_in_the_block(x):
    def tracer(frame, event, arg):
        return None

    with bp.probe() as rec:
        u = x * 2
        sys.settrace(tracer)
        v = doubled(u)
        sys.settrace(None)
        w = v + 1
    assert sys.gettrace() is None
    assert rec.record.notes == (Note("tracer_replaced"),)
    assert not any("/doubled" in name for name in rec)
    with bp.probe() as rec:
        u = x * 2
        sys.settrace(tracer)
    assert sys.gettrace() is tracer  # the program's, which stays
    sys.settrace(None)
    with bp.probe() as rec:
        ours = sys.gettrace()
        sys.settrace(tracer)
        sys.settrace(ours)
        u = x * 2
    assert "u" in rec
    assert sys.gettrace() is None


# nothing stays


def hooked(model):
    """How many hooks there are on a model's tensors, modules and on all modules."""
    held = [vars(module)[key] for module in model.modules() for key in vars(module) if key.endswith("_hooks")]
    return sum(map(len, held)) + sum(len(parameter._backward_hooks or ()) for parameter in model.parameters())


@case("left behind afterwards: no hook, tracer, or reference to a tensor, a module or a frame", LIFE, "nothing")
def test_nothing_stays(x):
    def program(model):
        x = torch.ones(3, requires_grad=True)
        with bp.probe(model, ["**", "**:*"]) as modules:
            with bp.probe() as rec:
                u = x * 2
                y = model(u)
                y.sum().backward(retain_graph=True)
        in_this_frame = Net()
        kept = [weakref.ref(tensor) for tensor in (x, u, y, in_this_frame)] + [weakref.ref(model)]
        return rec, modules, kept, y.grad_fn

    model = Net()
    before = hooked(model), [sorted(vars(module)) for module in model.modules()]
    rec, modules, kept, node = program(model)
    assert (hooked(model), [sorted(vars(module)) for module in model.modules()]) == before
    gradient = rec["u"].grad.clone()
    torch.autograd.backward([torch.zeros(1, requires_grad=True).sum()])  # no hook of a pass of others
    del node, model, program
    gc.collect()
    assert [ref() for ref in kept[:4]] == [None] * 4  # the recordings live, and hold detached values
    assert same(rec["u"].grad, gradient)
    del rec, modules
    gc.collect()
    assert [ref() for ref in kept] == [None] * 5


@pytest.mark.parametrize("form", ["plain block", "block", "model"])
def test_nothing_is_left_to_the_garbage_collector(form):
    """Each of its collections walks over all that the program holds."""
    model, x = Net(), torch.ones(3)

    def step():
        if form == "model":
            return bp.probe(model, ["**", "**:*"], of=lambda y: y.sum())(x).grads()
        with bp.probe(*([model, ["**", "**:*"]] if form == "block" else [])) as rec:
            model(x).sum().backward()
        return rec.grads()

    for _ in range(3):  # a schema is made in the first
        assert step()
    gc.collect()
    gc.disable()
    try:
        step()
        assert gc.collect() == 0
    finally:
        gc.enable()


@drawn
def test_hundreds_of_steps_leave_nothing():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    batch = torch.randn(2, 3)

    def of_block():
        with bp.probe() as rec:
            y = model(batch)
            loss = y.sum()
            loss.backward()
        return rec["y"].grad

    def of_model_block():
        with bp.probe(model) as rec:
            model(batch).sum().backward()
        return rec["0"].grad

    def of_model():
        return bp.probe(model, of=torch.sum)(batch)["0"].grad

    def state():
        gc.collect()
        return len(gc.get_objects()), hooked(model), threading.active_count(), tracemalloc.get_traced_memory()[0]

    for form in (of_block, of_model_block, of_model):
        for _ in range(20):
            form()
        tracemalloc.start()
        try:
            for _ in range(5):
                form()
            before = state()
            tracemalloc.stop()
            for _ in range(count(650, few=200)):
                form()
            tracemalloc.start()
            for _ in range(5):
                form()
            objects, hooks, threads, memory = state()
        finally:
            tracemalloc.stop()
        assert (hooks, threads) == before[1:3]
        assert objects <= before[0] + 20, form.__name__
        assert memory <= before[3] + 20_000, form.__name__


def test_blocks_that_end_in_another_order_than_they_began():
    x = torch.ones(2, requires_grad=True)
    before = sys.gettrace(), sys._getframe().f_trace
    first, second = bp.probe(), bp.probe()
    rec = first.__enter__()
    u = x * 2
    inner = second.__enter__()
    v = u * 3
    first.__exit__(None, None, None)
    w = v * 4
    w.sum().backward()
    second.__exit__(None, None, None)
    assert (sys.gettrace(), sys._getframe().f_trace) == before
    assert "w" in inner
    assert "w" not in rec
    assert rec.notes == ()
    assert inner["w"].grad.tolist() == [1, 1]


def test_leaving_a_block_that_was_never_entered():
    with pytest.raises(bp.BadOption, match="^this probe has no open block"):
        bp.probe().__exit__(None, None, None)


def test_options_that_are_not_for_blocks():
    with pytest.raises(bp.BadOption, match="session is not available in blocks"):
        bp.probe(session=3).__enter__()
    assert "with bp.probe(of=...)" in message(bp.BadOption, lambda: bp.probe(of="loss").__enter__())


def test_a_block_without_backward_says_so():
    with bp.probe() as rec:
        u = torch.ones(1) * 2
    assert "no gradients: nothing that was recorded was differentiated" in str(rec)
    assert repr(rec) == "<backprobe.Recording of nothing: 1 entry, 1 without gradient>"


def test_blocks_of_one_probe_that_take_turns():
    probe, x = bp.probe(), scalar(2.0)

    def turns():
        with probe as rec:
            u = x * 2
            yield rec
            late = u * 3
            yield rec
            late.backward()

    first, second = turns(), turns()
    recordings = next(first), next(second)
    next(first)
    assert list(first) == []
    next(second)
    assert list(second) == []
    for rec in recordings:
        says(rec, grads={"late": 1, "u": 3})


def test_a_recording_without_outputs_is_saved_and_loaded(tmp_path):
    with bp.probe() as rec:
        u = torch.ones(2) * 2
    rec.save(tmp_path / "saved")
    assert torch.equal(bp.load(tmp_path / "saved")["u"].value, u)


@pytest.mark.parametrize("reads_locals", [False, True])
def test_under_a_trace_function_too_what_a_block_bound_ends_with_its_names(reads_locals):
    def traced(frame, event, arg):
        if reads_locals:
            _ = frame.f_locals
        return traced

    def program():
        w = torch.ones(3, requires_grad=True)
        with bp.probe() as rec:
            h = w * 2
            loss = h.sum()
            loss.backward()
        ends = [weakref.ref(h), weakref.ref(loss)]
        del rec, h, loss
        gc.collect()
        kept = w.grad.tolist()  # no variable is lost by it
        return [end() for end in ends], kept

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        found = program()
    finally:
        sys.settrace(before)
    assert found == ([None, None], [2.0, 2.0, 2.0])


def test_a_block_that_a_closed_generator_leaves_imports_no_explanations(x, monkeypatch):
    """It may be closed as the interpreter ends, when nothing can be imported any more."""
    for name in ("rebound", "graph_errors"):
        monkeypatch.setitem(sys.modules, f"backprobe.explain.{name}", None)  # an import of it raises an error

    def steps():
        with bp.probe() as rec:
            u = x * 2
            yield rec, u

    running = steps()
    rec, _ = next(running)
    running.close()
    assert rec["u"].status is bp.GradStatus.BACKWARD_NOT_RUN
