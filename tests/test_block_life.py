"""From the first line of a block to its last: nested, left early, read while open, under a debugger, anywhere."""

import asyncio
import bdb
import contextlib
import doctest
import gc
import io
import subprocess
import sys
import trace
import tracemalloc
import weakref

import coverage
import pytest
import torch
from block_cases import nothing_left, same
from torch import nn

import backprobe as bp

LIFE, TRACERS, PLACES = "Nesting, errors, and reading early", "Debuggers and coverage", "Where a block can stand"


@pytest.fixture(autouse=True)
def leaves_nothing():
    with nothing_left():
        yield


def case(claim, section, answer="works"):
    return pytest.mark.block(claim, section, answer=answer)


@pytest.fixture
def x():
    return torch.tensor([1.0, -2.0, 3.0], requires_grad=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

    def forward(self, x):
        hidden = x * self.weight
        return hidden.tanh()


def doubled(value):
    twice = value * 2
    return twice


# nested


@case("a block in a block: each has the gradients of its own `backward()`s", LIFE)
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
    assert same(inner["u"].grad, torch.full((3,), 2.0))
    assert same(inner["v"].grad, torch.ones(3))
    assert [*outer] == ["x", "u", "v", "backward()#0", "w", "backward()#1"]
    assert same(outer["x"].grad, x.grad)
    assert same(outer["v"].grad, torch.full((3,), 4.0))
    assert outer["/doubled:twice"] is outer["v"]


@case("the function and model forms in a block", LIFE)
def test_other_forms_in_a_block(x):
    model = Net()
    with bp.probe() as outer:
        u = x * 2
        function = bp.probe(doubled, of=lambda y: y.sum())(u)
        of_model = bp.probe(model, of=lambda y: y.sum())(u)
        u.sum().backward()
    assert same(function["twice"].grad, torch.ones(3))
    assert same(function["value"].grad, torch.full((3,), 2.0))
    assert of_model["weight"].status == "ok"
    assert model.weight.grad is None
    assert same(outer["u"].grad, torch.ones(3))  # of its own backward() alone
    assert not any("/doubled" in name for name in outer)

    assert outer.notes == ("doubled was not followed: it is already being probed",)


def opens_a_block(value):
    with bp.probe():
        u = value * 3
    return u.sum()


@case("a plain block in a function that is probed", LIFE, "`NoSource`: probe the function, or open the block around it")
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


@case("a model block in a plain block, and the other way round", LIFE)
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
    assert same(plain["/Net:hidden"].value, x.detach() * model.weight.detach())
    assert same(plain["y"].grad, torch.ones(3))
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


@case("an error in the block: the very object, with a note; what was recorded stays readable", LIFE)
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
    assert rec["u"].status == "backward_not_run"
    assert same(rec["u"].value, u.detach())
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
    assert plain["u"].reason == "backward() was not called while the block was open"
    assert plain["n"].status == "detached"
    with bp.probe(model) as rec:
        model(x)
    assert {entry.status for entry in rec.values()} == {"backward_not_run"}
    assert [*rec.outputs] == []
    assert "backward_not_run" in str(rec)


@case("reading while the block is open: what is known then", LIFE)
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


def test_a_debugger_that_starts_in_the_block(x):
    debugger = Debugger()
    with bp.probe() as rec:
        u = x * 2
        debugger.set_trace()
        v = doubled(u)
        sys.settrace(None)
        w = v + 1
    assert sys.gettrace() is None
    assert ("doubled", doubled.__code__.co_firstlineno + 1) in debugger.lines
    assert rec.notes == ("another tracer took the place of the probe's: what the block ran then is not seen",)
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
    assert rec.notes == ("another tracer took the place of the probe's: what the block ran then is not seen",)
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


# where a block can stand


def generating(x):
    with bp.probe() as rec:
        u = x * 2
        yield u
        v = u * 3
        got = yield v
        w = v + got
        w.sum().backward()
    yield rec


@case("in a generator, in an async function, in `async for` and `async with`", PLACES)
def test_blocks_in_generators_and_coroutines(x):
    generator = generating(x)
    u = next(generator)
    assert same(u, x * 2)
    v = next(generator)
    unseen = x * 7
    w = generator.send(x.detach())
    rec = w
    assert [*rec] == ["x", "u", "v", "got", "w", "backward()"]
    assert rec["u"].status == rec["w"].status == "ok"
    generator.close()
    assert sys.gettrace() is None

    async def numbers():
        for number in (1.0, 2.0):
            await asyncio.sleep(0)
            yield torch.tensor(number)

    @contextlib.asynccontextmanager
    async def held(value):
        await asyncio.sleep(0)
        yield value * 2

    async def program():
        with bp.probe() as rec:
            u = x * 2
            await asyncio.sleep(0)
            async for number in numbers():
                u = u * number
            async with held(u) as h:
                v = h + 1
            parts = [part async for part in numbers()]
            v.sum().backward()
        return rec

    rec = asyncio.run(program())
    assert same(rec["x"].grad, x.grad - torch.full((3,), 6.0))
    assert {"u#0", "u#1", "u#2", "h", "v", "number#0", "number#1"} <= set(rec) | {a for e in rec.values() for a in e.aliases}
    assert rec["h"].status == rec["u#2"].status == "ok"


@case("entered by an `ExitStack`, left by `return`, `break` and `continue`", PLACES)
def test_ways_in_and_out(x):
    def by_stack():
        with contextlib.ExitStack() as stack:
            rec = stack.enter_context(bp.probe())
            u = x * 2
            v = doubled(u)
            v.sum().backward()
        return rec

    def by_return():
        with bp.probe() as rec:
            u = x * 2
            u.sum().backward()
            return rec, u
        raise AssertionError

    def by_loop():
        found = []
        for at in range(4):
            with bp.probe() as rec:
                u = x * (at + 1.0)
                u.sum().backward()
                found.append(rec)
                if at < 2:
                    continue
                if at == 2:
                    break
        return found

    rec = by_stack()
    assert rec["v"].grad.tolist() == [1, 1, 1]
    assert rec["/doubled:twice"] is rec["v"]
    rec, u = by_return()
    assert same(rec["u"].grad, torch.ones(3))
    assert "return" not in rec
    recs = by_loop()
    assert [same(rec["u"].grad, torch.ones(3)) for rec in recs] == [True] * 3
    assert same(recs[2]["x"].grad, torch.full((3,), 3.0))
    assert sys.gettrace() is None


SCRIPT = """
import torch
import backprobe as bp

x = torch.tensor([1.0, 2.0], requires_grad=True)

def tripled(value):
    thrice = value * 3
    return thrice

with bp.probe() as rec:
    u = x * 2
    v = tripled(u)
    class Held:
        inside = v * 2
    v.sum().backward()
for name, entry in rec.items():
    print(name, entry.grad.tolist() if entry.status == "ok" else entry.status)
class Body:
    with bp.probe() as rec:
        w = x * 5
        w.sum().backward()
print(Body.rec["w"].grad.tolist(), Body.rec["x"].grad.tolist())
"""


@case("at module level, in a class body, in a method, in a lambda's caller, in a doctest", PLACES)
def test_blocks_at_module_level_and_in_class_bodies(x, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == ["x [6.0, 6.0]", "u [3.0, 3.0]", "v [1.0, 1.0]", "/Held:inside not_connected", "backward() 1.0",
                                       "[1.0, 1.0] [5.0, 5.0]"]  # fmt: skip

    class Held:
        scale = 3.0

        def step(self, value):
            with bp.probe() as rec:
                self.last = value * self.scale
                apply = lambda inner: inner * 2
                v = apply(self.last)
                v.sum().backward()
            return rec

    rec = Held().step(x)
    assert same(rec["self.last"].grad, torch.full((3,), 2.0))
    assert rec["/<lambda>:return"] is rec["v"]


def documented():
    """
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> with bp.probe() as rec:
    ...     u = x * 3
    ...     v = doubled(u)
    ...     v.backward()
    >>> [*rec], rec["x"].grad
    (['x', 'u', 'v'], tensor(6.))
    """


def test_a_block_in_a_doctest():
    (example,) = doctest.DocTestFinder().find(documented, globs=globals())
    assert doctest.DocTestRunner().run(example).failed == 0


@case("in code without source text (`exec`, `python -c`)", PLACES, "`NoSource`; functions without source are not followed")
def test_code_without_source(x):
    code = "import backprobe as bp\nwith bp.probe() as rec:\n    u = x * 2\n"
    with pytest.raises(bp.NoSource, match="no source text") as caught:
        exec(code, {"x": x})
    assert sys.gettrace() is None
    caught.value.__traceback__ = None
    del caught
    space = {}
    exec("def made(value):\n    inside = value * 2\n    return inside\n", space)
    made = space["made"]
    with bp.probe() as rec:
        u = made(x)
        u.sum().backward()
    assert [*rec] == ["x", "u", "backward()"]
    assert rec.notes == ("made was not followed: there is no source text for made",)
    model, space = Net(), {"bp": bp, "x": x, "model": Net()}
    exec("with bp.probe(model) as rec:\n    model(x).sum().backward()", space)  # a model block needs none
    assert space["rec"]["weight"].status == "ok"


@case("recursion of the function that holds the block, deep recursion in the block", PLACES)
def test_recursion(x):
    def outer(value, depth):
        if not depth:
            return value
        with bp.probe() as rec:
            u = value * 2
            below = outer(u, depth - 1)
            below.sum().backward(retain_graph=True)
        found.append(rec)
        return below

    found = []
    outer(x, 3)
    for rec, depth in zip(found, (1, 2, 3), strict=True):
        assert same(rec["u"].grad, torch.full((3,), 2.0 ** (depth - 1) * depth)), depth

    def deep(value, depth):
        if depth == 0:
            return value
        more = value + 1
        return deep(more, depth - 1)

    with bp.probe() as rec:
        bottom = deep(x, 150)
        bottom.sum().backward()
    assert rec["/deep" * 150 + ":more"] is rec["bottom"]
    assert same(rec["/deep:more"].grad, torch.ones(3))
    with pytest.raises(RecursionError), bp.probe() as rec:
        deep(x, 10**6)
    assert rec["/deep:more"].status == "backward_not_run"


TOTAL = None


@case("closures, `nonlocal`, `global`, `del`, `try`/`except`/`finally`, `match`, `while`", PLACES)
def test_statements_of_a_block(x):
    global TOTAL
    scale = torch.tensor(2.0)

    def adds(value):
        nonlocal scale
        scale = scale * value
        return scale

    with bp.probe() as rec:
        u = x.sum() * 2
        v = adds(u)
        TOTAL = v * 3
        del u
        u = TOTAL + 1
        try:
            w = u * 2
            raise KeyError
        except KeyError:
            w = u * 4
        finally:
            last = w + 1
        at = 0
        while at < 2:
            last = last * 2
            at += 1
        match [last, w]:
            case [first, *_]:
                z = first.exp()
        z.backward()
    assert [rec[name].status for name in ("x", "u#0", "v", "TOTAL", "u#1", "w#1", "last#0", "last#2", "z")] == ["ok"] * 9
    assert rec["/adds:scale"] is rec["v"]
    assert rec["w#0"].status == "not_connected"
    assert rec["z"].grad.item() == 1
    assert rec["at#1"].value == 1
    TOTAL = None
