"""Watching a function while it runs, without a framework; see ``test_bytecode`` for every kind of statement."""

import asyncio
import contextlib
import sys

import pytest

import backprobe as bp
from backprobe.source.bytecode import events
from backprobe.source.frames import UNKNOWN, name_in, value_in
from backprobe.source.marks import Does
from backprobe.source.tracer import Tracer

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Listener:
    """What a watched frame tells: notes each local and its value, as the block form does."""

    def __init__(self, found, log, unread=()):
        self.found, self.log, self.pending, self.bound = found, log, None, []
        self.unread, self.read = set(unread), []

    def step(self, frame):
        event = self.found.at.get(frame.f_lasti)
        if event is not None and event is self.pending:
            return
        self.settle(frame)
        if self.bound and (event is None or event.does is not Does.BIND):
            self.flush()
        self.pending = event
        if event is None:
            self.read += self.unread.intersection(self.found.loads.get(frame.f_lasti, ()))

    def settle(self, frame):
        event, self.pending = self.pending, None
        while event is not None:
            if event.does is Does.READ:
                self.read += self.unread.intersection([event.name])
            elif event.does is Does.BIND:
                self.bound.append((event.site, name_in(frame, event.name)))
            elif event.does in (Does.WALRUS, Does.EACH, Does.STORE_AUGMENTED):
                self.note(event.site, name_in(frame, event.name))
            elif event.does in (Does.SET_ITEM, Does.SET_ATTRIBUTE):
                self.note(event.site, value_in(frame, event.node))
            elif event.does is Does.DELETE:
                self.log.append(("del", event.name))
            event = event.then

    def flush(self):
        bound, self.bound = sorted(self.bound, key=lambda pair: pair[0]), []
        for site, value in bound:
            self.note(site, value)

    def note(self, site, value):
        self.log.append((self.found.sites[site].local, value))

    def raised(self, error):
        self.pending = None

    def left(self, frame, value):
        event = self.pending
        if event is not None and event.does is Does.RETURN:
            self.pending = None
            self.flush()
            self.note(event.site, value)
        else:
            self.settle(frame)
            self.flush()
        return True


def watched(function, *args):
    """What a function binds while it runs, seen from outside."""
    log, before = [], sys.gettrace()

    def entered(frame):
        code = frame.f_code
        if code is function.__code__:
            found = events(code, code, code.co_filename)
            log.extend((name, name_in(frame, name)) for name, _ in found.arguments)
            return Listener(found, log)
        if code.co_name in COMPREHENSIONS and code in function.__code__.co_consts:
            return Listener(events(code, function.__code__, code.co_filename), log)
        return None

    tracer = Tracer(entered)

    def start():
        nothing = events(start.__code__, start.__code__, __file__)
        tracer.start(sys._getframe(), Listener(nothing, []))
        try:
            return function(*args)
        finally:
            assert tracer.stop()

    result = start()
    assert sys.gettrace() is before
    assert tracer.frames == {}
    return result, log


class Box:
    def __init__(self):
        self.held, self.parts, self.table = 0, [1, 2, 3], {"k": 1}

    def __eq__(self, other):
        return isinstance(other, Box)


def names(a, b=2, *rest, c=3, **others):
    u = a + b
    v: int = u * 2
    p = q = v
    v += 1
    return u + v + p + q


def nested_comprehensions(a, b):
    rows = [[inner + outer for inner in (1, 2)] for outer in (a, b)]
    return rows


LAST = 0


def test_a_lambda():
    function = lambda a, b: (c := a + b) * 2
    result, found = watched(function, 1, 2)
    assert result == 6
    assert found == [("a", 1), ("b", 2), ("c", 3), ("return", 6)]


def test_comprehensions_in_comprehensions():
    _, found = watched(nested_comprehensions, 5, 7)
    assert found[:2] == [("a", 5), ("b", 7)]
    assert [value for name, value in found if name == "outer"] == [5, 7]
    assert found[-2:] == [("rows", [[6, 7], [8, 9]]), ("return", [[6, 7], [8, 9]])]


def many(count):
    """A function with so many names that instructions need prefixes."""
    return "def long(a):\n" + "".join(f"    v{at} = a + {at}\n" for at in range(count)) + f"    return v{count - 1}\n"


def test_instructions_with_prefixes(tmp_path, monkeypatch):
    (tmp_path / "long_module.py").write_text(many(600))
    monkeypatch.syspath_prepend(str(tmp_path))
    from long_module import long

    _, found = watched(long, 1)
    assert found == [("a", 1), *((f"v{at}", 1 + at) for at in range(600)), ("return", 600)]


def test_what_is_read():
    log = []

    def program(a):
        b = a + len([a for _ in range(1)])
        return b + LAST

    code = program.__code__
    listener = Listener(events(code, code, __file__), log, unread=["a", "LAST"])
    tracer = Tracer(lambda frame: listener if frame.f_code is code else None)
    tracer.start(sys._getframe(), Listener(events(watched.__code__, watched.__code__, __file__), []))
    try:
        program(1)
    finally:
        tracer.stop()
    assert set(listener.read) == {"a", "LAST"}


def test_generators_and_coroutines_go_on_being_watched():
    log = []

    def generator(a):
        b = a + 1
        c = yield b
        d = yield c
        return d

    async def coroutine(a):
        b = a + 1
        await asyncio.sleep(0)
        c = b + 1
        async for e in asynchronous(c):
            d = e
        return d

    async def asynchronous(a):
        yield a
        yield a + 1

    def listen(frame):
        code = frame.f_code
        return Listener(events(code, code, __file__), log) if code in of else None

    of = (generator.__code__, coroutine.__code__)
    tracer = Tracer(listen)
    tracer.start(sys._getframe(), Listener(events(watched.__code__, watched.__code__, __file__), []))
    try:
        started = generator(1)
        next(started)
        assert started.send(5) == 5
        with contextlib.suppress(StopIteration):
            started.send(6)
        asyncio.run(coroutine(1))
    finally:
        tracer.stop()
    assert [pair for pair in log if pair[0] in "bcd"] == [
        ("b", 2),
        ("c", 5),
        ("d", 6),
        ("b", 2),
        ("c", 3),
        ("d", 3),
        ("d", 4),
    ]


def test_an_error_binds_nothing():
    def fails(a):
        b = a
        c = b / 0
        return c

    with pytest.raises(ZeroDivisionError):
        watched(fails, 1)

    def recovers(a):
        try:
            b = a / 0
        except ZeroDivisionError:
            b = 3
        return b

    assert watched(recovers, 1)[1] == [("a", 1), ("b", 3), ("return", 3)]


def test_another_tracer_is_called_before_and_put_back():
    lines = []

    def other(frame, event, arg):
        if frame.f_code is names.__code__:
            lines.append((event, frame.f_lineno))
        return other

    sys.settrace(other)
    try:
        names(1, 2)
        alone = list(lines)
        watched(names, 1, 2)
        kept = sys.gettrace()
    finally:
        sys.settrace(None)
    assert kept is other
    assert lines == alone * 2
    assert {event for event, _ in lines} == {"call", "line", "return"}


def test_code_without_source():
    space = {}
    exec("def made(a):\n    b = a\n    return b\n", space)
    code = space["made"].__code__
    with pytest.raises(bp.NoSource):
        events(code, code, code.co_filename)


def test_the_body_of_a_class():
    log = []

    def makes(value):
        class Made:
            inside = value + 1
            other = inside * 2

        return Made

    tracer = Tracer(
        lambda frame: (
            Listener(events(frame.f_code, frame.f_code, __file__), log) if frame.f_code.co_name == "Made" else None
        )
    )
    tracer.start(sys._getframe(), Listener(events(watched.__code__, watched.__code__, __file__), []))
    try:
        makes(1)
    finally:
        tracer.stop()
    assert log == [("inside", 2), ("other", 4)]


# expressions, without running the program


class Asked(Exception):
    """Code of the program has run."""


class Guarded:
    __slots__ = ("filled", "empty")

    def __init__(self):
        self.filled = 3

    @property
    def computed(self):
        raise Asked

    def __getattr__(self, name):
        raise Asked

    def method(self): ...


def test_what_an_expression_stands_for():
    import ast

    box, guarded, items, number = Box(), Guarded(), ({"k": [1, 2]}, 3), 7
    frame = sys._getframe()

    def value(text):
        return value_in(frame, ast.parse(text, mode="eval").body)

    assert value("number") == 7
    assert value("-1") == -1
    assert value("box.parts[-1]") == 3
    assert value("items[0]['k'][1]") == 2
    assert value("guarded.filled") == 3
    assert value("guarded.method").__func__ is Guarded.method
    assert value("sys.path") is sys.path
    assert value("len") is len
    for unknown in (
        "missing",
        "guarded.computed",
        "guarded.empty",
        "guarded.anything",
        "number * 2",
        "items[9]",
        "box.parts[0:1]",
        "len(items)",
    ):
        assert value(unknown) is UNKNOWN, unknown
