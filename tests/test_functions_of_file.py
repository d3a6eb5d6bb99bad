"""The living functions of a file are found, however the file was loaded."""

import importlib.util
import sys

import pytest

from backprobe.source.exchanged import functions_of, names_of

TEXT = """
import functools

def plain(x):
    return x

def decorated(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

@decorated
def wrapped(x):
    return x + 1

class Holder:
    def method(self, x):
        return x
"""


def loaded(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "loaded_file.py"
    file.write_text(TEXT)
    return str(file)


OWN = {"plain", "decorated", "decorated.<locals>.inner", "wrapped", "Holder.method"}


@pytest.mark.parametrize("names", [[], ["once"], ["once", "twice"]])
def test_functions_of_a_file(path, names, monkeypatch):
    modules = [loaded(path, name) for name in names or ["unknown"]]
    for name, module in zip(names, modules, strict=False):  # without names, no module is registered
        monkeypatch.setitem(sys.modules, name, module)
    closure = modules[-1].decorated(len)  # no module holds it
    found = functions_of(path)
    assert {one.__code__.co_qualname for one in found} == OWN
    assert any(one is closure for one in found)
    assert [sum(one is module.plain for one in found) for module in modules] == [1] * len(modules)
    assert names_of(path)["plain"] is modules[0].plain
