"""Functions in files: the definition that is found by parsing one statement is the one that the whole file has.

A wrong text would be a silent lie, so what a statement alone does not settle is looked up in the whole text.
"""

import ast
import asyncio.base_events
import dataclasses
import importlib.util
import inspect
import linecache
import logging
import os
import py_compile
import sys
import textwrap
from types import CodeType

import pytest

import backprobe as bp
from backprobe.source import locate as locating
from backprobe.source.bytecode import is_class, is_module
from backprobe.source.locate import locate, locate_class, locate_module
from backprobe.source.module_code import module_code
from backprobe.source.reporting import reporting
from test_source import opener

LINES = """\
# -*- coding: latin-1 -*-
from __future__ import annotations
import functools, os.path as path
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import absent
    def never(): pass
else:
    def conditional(x):
        if True: return lambda y: (lambda z: x + y + z)
Ä = '''
def multiline(x):
    return "a text, and no function"
'''; POINTLESS = 1
def multiline(x):
    a = '''
at column 0
'''
    b = (x,
1)
    return a, \\
b

def one_line(x): y = x; return y
@functools.lru_cache(maxsize=
None)
@(lambda f: f)
# a comment

def decorated(x, *, k=(lambda: 3)):
\treturn x \\
\t    + k()
class Outer(object):
  '''A class.'''
  class __Inner:
    def __method(self, __x): return __x
    @property
    def value(self):
        def local(): return __class__, path
        return local
    attribute = lambda self: super()
    async def waiting(self): return [i async for i in self]
  def method(self): return super(), self.__name
try:
    def tried(x): return (yield x)
except Exception:
    def tried(x): return x
finally:
    def cleaned(): return [(lambda: i) for i in range(3)]
table = {"a": lambda x: x, "b": lambda x: x * 2,
  "c": lambda x: (lambda: x)}
def twins(): return (lambda: 1), (lambda: 1)
def last(x):
    return x
    # no newline at the end"""


def functions(code):
    """All code of functions and classes in a code object, without that of comprehensions and type parameters."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == "<lambda>" or not constant.co_name.startswith("<"):
                yield constant
            yield from functions(constant)


def imported(folder, text, encoding="utf-8"):
    """The code of a file's module, as its import makes it; its ``.pyc`` is there."""
    file = folder / "program.py"
    file.write_bytes(text.encode(encoding))
    py_compile.compile(str(file), doraise=True)
    return compile(file.read_bytes(), str(file), "exec", dont_inherit=True)


def described(definition):
    return ast.dump(definition.node, include_attributes=True), definition.classes, definition.lines


def same_both_ways(code, monkeypatch):
    """Locate a function by its statement and in the whole text; whether the statement was enough."""
    found = locate(code)
    with monkeypatch.context() as patch:
        patch.setattr(locating, "_in_statement", lambda code, lines: None)
        whole = locate(code)
    assert whole.is_shared
    assert described(found) == described(whole), code.co_qualname
    return not found.is_shared


def test_what_a_statement_alone_gives_is_what_the_whole_text_gives(tmp_path, monkeypatch):
    found = {}
    for code in functions(imported(tmp_path, LINES, "latin-1")):
        if not is_class(code):
            found.setdefault(code.co_qualname, []).append(same_both_ways(code, monkeypatch))
    lambdas_of_the_module = [found.pop("<lambda>"), found.pop("<lambda>.<locals>.<lambda>")]
    assert not any(map(any, lambdas_of_the_module))  # no definition is around them
    assert all(map(all, found.values()))
    assert {
        "conditional.<locals>.<lambda>.<locals>.<lambda>",
        "multiline",
        "one_line",
        "decorated",
        "tried",
        "cleaned",
        "Outer.__Inner.__method",
        "Outer.__Inner.value.<locals>.local",
        "Outer.__Inner.<lambda>",
        "never",
        "Outer.__Inner.waiting",
        "Outer.method",
        "twins.<locals>.<lambda>",
        "last",
    } <= found.keys()


if sys.version_info >= (3, 12):

    def test_type_parameters_in_files(tmp_path, monkeypatch):
        text = """\
            type Pair[T] = tuple[T, T]
            class Box[T: (int, str)](list):
                def get[S](self, x: S) -> T: return lambda: x
            @staticmethod
            def free[T](x: T) -> T:
                return [x for _ in "ab"]
        """
        code = imported(tmp_path, textwrap.dedent(text))
        found = {c.co_qualname: c for c in functions(code) if c.co_name in ("get", "free", "<lambda>")}
        assert len(found) == 3
        assert all(same_both_ways(code, monkeypatch) for code in found.values())
        assert locate(found["Box.get"]).classes == ("Box",)


@pytest.mark.parametrize("module", [asyncio.base_events, dataclasses, logging, inspect], ids=lambda m: m.__name__)
def test_every_function_of_a_large_file(module, monkeypatch):
    alone = []
    for code in functions(module_code(module.__file__, tuple(linecache.getlines(module.__file__)))):
        if not is_class(code) and not code.co_qualname.startswith("<lambda>"):  # those have no statement around them
            alone.append(same_both_ways(code, monkeypatch))
    assert len(alone) > 20
    assert all(alone)


def test_only_the_statement_around_a_function_is_parsed(tmp_path, monkeypatch):
    code = imported(tmp_path, LINES, "latin-1")
    texts, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda text, *more: texts.append(text) or parse(text, *more))
    method = next(inner for inner in functions(code) if inner.co_qualname == "Outer.method")
    locate(method)
    (text,) = texts
    assert text.split("\n", method.co_firstlineno - 2)[-1] == (
        "if 1:\n  def method(self): return super(), self.__name\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n\x0cdef f(x):\n    return x\n",  # a form feed: the indentation begins anew
        "def g(): pass\n\\\ndef f(x):\n    return x\n",  # a backslash before the definition
        "if 1:\n    pass\n    \\\n  def f(x):\n      return x\n",
        "@\\\nstaticmethod\ndef f(x):\n    return x\n",  # the first line is that of the decorator's name
    ],
)
def test_definitions_whose_lines_may_be_none_alone(text, tmp_path, monkeypatch):
    (code,) = (code for code in functions(imported(tmp_path, text)) if code.co_name == "f")
    same_both_ways(code, monkeypatch)


def test_line_ends_of_other_systems_and_an_encoding_mark(tmp_path, monkeypatch):
    text = "\ufeffdef f(x):\r\n    y = '''\r\n  '''\r\n    return y\r\n"
    (code,) = functions(imported(tmp_path, text))
    assert same_both_ways(code, monkeypatch)


def test_code_without_positions_is_looked_up_in_the_whole_text(tmp_path, monkeypatch):
    code = imported(tmp_path, "def g(): pass\ndef f(x):\n    return x\n")
    f = list(functions(code))[-1]
    monkeypatch.setattr(locating, "path_to", lambda code, around: ())  # as with python -X no_debug_ranges
    assert locate(f).is_shared


def test_a_class_is_found_alone(tmp_path, monkeypatch):
    code = imported(tmp_path, LINES, "latin-1")
    classes = [inner for inner in functions(code) if is_class(inner)]
    assert [inner.co_name for inner in classes] == ["Outer", "__Inner"]
    alone = [ast.dump(locate_class(inner)[0], include_attributes=True) for inner in classes]
    monkeypatch.setattr(locating, "_path", lambda code, lines: ())
    assert [ast.dump(locate_class(inner)[0], include_attributes=True) for inner in classes] == alone
    assert is_module(code)
    assert ast.dump(locate_module(code)[0]) == ast.dump(ast.parse(LINES))


def changed(file, text):
    """Write another text, of another time than the first."""
    stat = os.stat(file)
    with open(file, "w") as open_file:
        open_file.write(text)
    os.utime(file, (stat.st_atime, stat.st_mtime + 10))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("mode", py_compile.PycInvalidationMode)
def test_a_file_that_has_changed_since(mode, compiled, tmp_path):
    """Whatever the ``.pyc`` says of itself, and also where a later import has written a new one."""
    before, after = "def f(x):\n    y = x\n    return y\n", "def f(x):\n    z = x\n    return z\n"
    (code,) = functions(imported(tmp_path, before))
    py_compile.compile(code.co_filename, invalidation_mode=mode)
    assert not locate(code).is_shared
    changed(code.co_filename, after)
    if compiled:
        py_compile.compile(code.co_filename, invalidation_mode=mode)
    with pytest.raises(bp.StaleSource):
        locate(code)
    changed(code.co_filename, "def f(x:\n")
    with pytest.raises(bp.NoSource, match="does not parse"):
        locate(code)
    changed(code.co_filename, before)
    assert described(locate(code))[1:] == ((), tuple(before.splitlines(True)))


def test_lines_that_are_not_the_files_are_compared_by_themselves(tmp_path, monkeypatch):
    """Who puts a text into ``linecache`` means that one."""
    (code,) = functions(imported(tmp_path, "def f(x):\n    y = x\n    return y\n"))
    other = "def f(x):\n    z = x\n    return z\n"
    monkeypatch.setitem(linecache.cache, code.co_filename, (len(other), None, other.splitlines(True), code.co_filename))
    with pytest.raises(bp.StaleSource):
        locate(code)
    own = next(functions(compile(other, code.co_filename, "exec")))
    assert locate(own).is_shared


def test_no_bytecode_is_written(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("def f(x):\n    return x\n")
    (code,) = functions(compile(file.read_text(), str(file), "exec"))
    assert not locate(code).is_shared
    assert os.listdir(tmp_path) == ["program.py"]


def test_functions_in_rewritten_ones_are_the_originals_where_imports_are_known_to_the_compiler(tmp_path):
    """From Python 3.12 on it compiles calls of what a module imports in another way; this import is never run."""
    text = """\
        import os
        if False:
            import functools
        def f(x):
            class Local:
                def value(self): return os.fspath(x)
            def inner(): return functools.partial(x)
            return Local, inner, (lambda: os.fspath(x)), (lambda: os.fspath(x)), [lambda: functools.y for _ in "a"][0]
    """
    imported(tmp_path, textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location("program", tmp_path / "program.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made, plain = reporting(module.f, opener([], False))("a"), module.f("a")
    assert [one.__qualname__ for one in made] == [one.__qualname__ for one in plain]
    assert [one.__code__ for one in made[1:]] == [one.__code__ for one in plain[1:]]
    assert made[0].value.__code__ is plain[0].value.__code__
    for one in (*made[1:], made[0].value):
        assert not locate(one.__code__).is_shared
