"""What serves the whole process is no state of a program: caches, logs and test runners keep what a run has given them.

Beside each stands a program's own object in the same place, which is put back.
"""

import collections
import functools
import linecache
import logging
import re
import sys
import types
import warnings

import pytest
import torch

import backprobe as bp

X = torch.linspace(0.5, 1.5, 6).reshape(2, 3)
LOG = logging.getLogger("of.a.program")


class Heard(logging.Handler):
    def emit(self, record):
        heard().append(record.getMessage())


def heard():
    return sys.modules[__name__].__dict__["_heard"]


_heard = []


@pytest.fixture
def library():
    """A module of an installed package, with a cache that its function fills and a name that it sets once."""
    made = types.ModuleType("a_library")
    text = """
CACHE, READY = {}, None
def looked_up(key):
    global READY
    READY = READY or key
    CACHE[key] = len(CACHE)
    return 1.0
"""
    place = f"{torch.__path__[0].removesuffix('torch')}a_library/__init__.py"
    exec(compile(text, place, "exec"), vars(made))
    sys.modules["a_library"] = made
    yield made
    del sys.modules["a_library"]


def run(program):
    bp.noise_floor(program, runs=1)(X)


def test_a_cache_of_functools_stays_filled_and_a_dict_of_the_program_does_not():
    own = {}

    @functools.lru_cache
    def cached(key):
        return [key]

    def program(x):
        own["called"] = cached("called")
        return (x * 2).sum()

    run(program)
    assert (cached.cache_info().currsize, own) == (1, {})


def test_what_a_library_s_function_keeps_in_its_module_stays(library):
    looked_up = library.looked_up

    def program(x):
        return (x * looked_up("key")).sum()

    run(program)
    assert (library.CACHE, library.READY) == ({"key": 0}, "key") or library.CACHE == {"key": 1}


def test_patterns_that_were_compiled_and_lines_that_were_read_stay(tmp_path):
    path = tmp_path / "read.py"
    path.write_text("x = 1\n")
    pattern = re.compile("of a program")
    read, text = linecache.getline, f"only here {tmp_path}"

    def program(x):
        re.compile(text)
        return (x * len(read(str(path), 1))).sum() * bool(pattern)

    run(program)
    assert str(path) in linecache.cache
    assert any(text in key for key in re._cache)
    linecache.cache.pop(str(path))


def test_what_was_logged_stays_logged():
    handler = Heard()
    LOG.addHandler(handler)

    def program(x):
        LOG.warning("called")
        LOG.setLevel(logging.WARNING)
        return (x * 2).sum()

    run(program)
    assert heard() == ["called"] * 2
    assert LOG.level == logging.WARNING
    LOG.removeHandler(handler)
    LOG.setLevel(logging.NOTSET)
    heard().clear()


def test_what_was_warned_of_stays_known_to_pytest():
    def program(x):
        warnings.warn("called", stacklevel=1)
        return (x * 2).sum()

    with pytest.warns(UserWarning, match="called") as seen:
        run(program)
    assert len(seen) == 2


def test_an_object_of_pytest_is_not_opened(monkeypatch, request):
    def program(x):
        monkeypatch.setattr(logging, "raiseExceptions", True)
        return (x * len(request.node.name)).sum()

    before = logging.raiseExceptions
    run(program)
    assert len(monkeypatch._setattr) == 2
    monkeypatch.undo()
    assert logging.raiseExceptions == before


def test_an_object_of_a_library_that_the_program_holds_is_put_back():
    counted = collections.Counter()
    held = type("Of", (), {"__module__": "of_a_library"})()  # as a cache of keys and values of transformers
    held.keys = [torch.zeros(1)]

    def program(x):
        counted["calls"] += 1
        held.keys.append(x)
        held.keys[0] += 1
        return (x * 2).sum()

    run(program)
    assert (counted, held.keys) == ({}, [torch.zeros(1)])
