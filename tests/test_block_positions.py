"""A block can stand wherever a ``with`` statement can, around whatever statements there are."""

import asyncio
import contextlib
import doctest
import functools
import runpy
import sys
from dataclasses import dataclass

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import backprobe as bp
from asked import says
from block_cases import Net, case, doubled, same
from commands import forked, printed

pytestmark = pytest.mark.usefixtures("leaves_nothing")

PLACES = "Where a block can stand"


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
    names = {name for entry in rec.values() for name in (entry.name, *entry.aliases)}
    assert {"u#0", "u#1", "u#2", "h", "v", "number#0", "number#1"} <= names
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
    assert printed(forked(script)).splitlines() == [
        "x [6.0, 6.0]",
        "u [3.0, 3.0]",
        "v [1.0, 1.0]",
        "/class Held:inside not_connected",
        "backward() 1.0",
        "[1.0, 1.0] [5.0, 5.0]",
    ]

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


def test_what_a_dataclass_stores_needs_no_note(x):
    @dataclass
    class Pair:
        a: torch.Tensor
        b: float = 2.0

    with bp.probe() as rec:
        pair = Pair(x * 2, b=3.0)
        (pair.a * pair.b).sum().backward()
    assert rec["pair.a"].grad.tolist() == [3.0] * x.numel()
    assert rec.notes == ()


@case(
    "in code without source text (`exec`, `python -c`)",
    PLACES,
    "its variables are not recorded, and `rec.notes` says so; what it calls is",
)
def test_code_without_source(x):
    space = {"x": x, "doubled": doubled}
    lines = "    u = [doubled(x) for _ in 'a'][0]\n    u.sum().backward()\n"
    exec(f"import backprobe as bp\nwith bp.probe() as rec:\n{lines}", space)
    assert [*space["rec"]] == ["/doubled:value", "/doubled:twice", "backward()"]
    assert space["rec"].notes == ("the variables of <module> were not recorded: there is no source text for <module>",)
    assert sys.gettrace() is None
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


CHANGED = """import backprobe as bp
def inside(value):
    twice = value * 2
    return twice
def outside(x, *select):
    with bp.probe(*select) as rec:
        u = helper(x)
        [part for part in u]
        u.sum().backward()
    return rec
"""


@case(
    "in a function whose file has changed since it was imported",
    PLACES,
    "its variables are not recorded, and `rec.notes` says so; what it calls is",
)
@pytest.mark.parametrize(
    "now",
    ["# one more line\n" + CHANGED, CHANGED.replace("value * 2", "value * 3"), ""],
    ids=["moved", "edited", "emptied"],
)
def test_code_whose_file_has_changed(x, now, tmp_path):
    path = tmp_path / "changing.py"
    path.write_text(CHANGED)
    space = runpy.run_path(str(path))
    space["outside"].__globals__["helper"] = doubled
    path.write_text(now.replace("def outside(x,", "def outside(y,"))
    why = ["has changed since it was imported", *([] if now else ["there is no source text"])]  # by Python's version
    for select in ((), (None, "u")):
        rec = space["outside"](x, *select)
        assert "backward()" in rec
        assert [
            note for note in rec.notes if "variables of outside were not" in note and any(one in note for one in why)
        ]
    rec = space["outside"](x)
    assert [*rec] == ["/doubled:value", "/doubled:twice", "backward()"]
    assert bp.explain(rec).findings == ()
    with pytest.raises(bp.NoSource):  # this form is asked for before anything runs
        bp.probe(space["inside"])(x)


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
    for name in ("x", "u#0", "v", "TOTAL", "u#1", "w#1", "last#0", "last#2", "z"):
        assert rec[name].status == "ok"
    assert rec["/adds:scale"] is rec["v"]
    says(rec, statuses={"w#0": "not_connected"}, grads={"z": 1}, values={"at#1": 1})
    TOTAL = None


class Made:
    def __init__(self, value):
        made = value * 2
        self.value = made

    @property
    def scaled(self):
        inside = self.value * 3
        return inside

    def __add__(self, other):
        added = self.value + other
        return added


@functools.lru_cache
def remembered(value):
    squared = value * value
    return squared


@case("constructors, properties, operators, hooks, functions passed to a library, `lru_cache`: all followed", PLACES)
def test_what_is_followed_in_a_block_alone(x):
    def hook(gradient):
        doubled_gradient = gradient * 2
        return doubled_gradient

    def key(value):
        size = value.abs()
        return size.item()

    with bp.probe() as rec:
        made = Made(x)
        u = made.scaled
        v = made + u
        w = remembered(v)
        w.register_hook(hook)
        largest = max(w, key=key)
        w.sum().backward()
    for name in ("/__init__:made", "/scaled:inside", "/__add__:added", "/remembered:squared", "/key#0:size"):
        assert name in rec, name
    assert rec["/__add__:added"] is rec["v"]
    assert same(rec["w"].grad, torch.full((3,), 2.0))
    assert not any("doubled_gradient" in name for name in rec)  # backward is not followed
    remembered.cache_clear()


@case("`locals()` that is kept in a block", PLACES, "is updated at each step before Python 3.13")
def test_locals_that_are_kept(x):
    def program():
        kept = locals()
        later = x * 2
        return "later" in kept

    assert not program()
    with bp.probe():
        found = program()
    assert found == (sys.version_info < (3, 13))


CELL = """
import torch, backprobe as bp
x = torch.tensor([1.0, 2.0], requires_grad=True)
def tripled(value):
    thrice = value * 3
    return thrice
with bp.probe() as rec:
    u = x * 2
    v = tripled(u)
    v.sum().backward()
rec["u"].grad.tolist()
"""


@case("in a notebook cell, among other statements, with functions of other cells", PLACES)
def test_a_block_in_a_notebook():
    main, hooks = sys.modules["__main__"], (sys.excepthook, sys.displayhook)
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    try:
        with capture_output():
            first = shell.run_cell(CELL, store_history=True)
            second = shell.run_cell("with bp.probe() as rec:\n    w = tripled(x)\n    w.sum().backward()\n[*rec]")
            third = shell.run_cell("rec['w'].source.text, rec['/tripled:thrice'] is rec['w']")
        assert first.error_in_exec is None
        assert first.result == [3.0, 3.0]
        assert second.result == ["x", "w", "backward()"]
        assert third.result == ("thrice = value * 3", True)
    finally:
        shell.restore_sys_module_state()
        sys.modules["__main__"] = main
        sys.excepthook, sys.displayhook = hooks
