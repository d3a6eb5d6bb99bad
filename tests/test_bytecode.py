"""The table of opcodes, held against the Python that runs; programs of every kind of statement, in blocks.

A program must compute with a probe what it computes without one, on every supported Python, and a block must record
what the function form does, which rewrites the source text and sees no bytecode.
"""

import ast
import asyncio.base_events
import dataclasses
import dis
import linecache
import sys
import textwrap
import typing
from contextlib import nullcontext
from pathlib import Path
from types import CodeType

import pytest
import torch

import backprobe as bp
from backprobe.source import bytecode
from backprobe.source.bytecode import VALUES, VARIABLES, To, comprehension_heads, names_hidden, variables
from program_texts import FROM_3_12, PROGRAMS, SEEN_OTHERWISE

HEAD = "import asyncio, contextlib, types\nimport torch\n\n"
LEAVES = "x, w = torch.tensor(0.7, requires_grad=True), torch.tensor(0.3, requires_grad=True)\n"
OF_NO_VARIABLE = {
    "LOAD_CONST",
    "LOAD_ASSERTION_ERROR",
    "LOAD_BUILD_CLASS",
    "LOAD_LOCALS",
    "LOAD_SUPER_ATTR",
    "LOAD_SUPER_METHOD",
    "LOAD_ZERO_SUPER_ATTR",
    "LOAD_ZERO_SUPER_METHOD",
    "DELETE_ATTR",
    "DELETE_SUBSCR",
    "CALL_INTRINSIC_1",
    "CALL_INTRINSIC_2",
    "RETURN_GENERATOR",
}
"""Opcodes that need no report: neither a variable nor a value that a statement reports is in them."""


def instructions(code):
    for instruction in dis.get_instructions(code):
        yield instruction, code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from instructions(constant)


def test_every_opcode_that_loads_stores_deletes_calls_or_returns_is_in_a_table():
    shown = {name for name in dis.opmap if name.startswith(("LOAD_", "STORE_", "DELETE_", "CALL", "RETURN_"))}
    assert shown - {*VARIABLES, *VALUES} <= OF_NO_VARIABLE


def test_opcodes_of_variables_are_among_those_of_variables():
    of_variables = {dis.opname[code] for code in (*dis.haslocal, *dis.hasfree)} - {"COPY_FREE_VARS"}
    written = {name for name in of_variables if not name.startswith(("INSTRUMENTED_", "<"))}
    assert written | {"LOAD_NAME", "STORE_NAME", "DELETE_NAME"} <= VARIABLES.keys()


@pytest.mark.parametrize(
    "module", [asyncio.base_events, ast, dataclasses, typing, dis], ids=lambda module: module.__name__
)
def test_each_instruction_of_large_programs_names_its_variables(module):
    text = Path(module.__file__).read_text()
    for instruction, code in instructions(compile(text, module.__file__, "exec")):
        own = (*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars)
        for to, name in variables(instruction, code):
            assert isinstance(to, To)
            assert name in own, instruction


def test_comprehensions_run_in_the_frame_around_them_from_3_12_on():
    code = compile("parts = [k * 2 for k in range(3)]", "here", "exec")
    assert names_hidden(code) == ({"k"} if sys.version_info >= (3, 12) else set())


def test_the_loops_of_comprehensions_are_told_from_those_of_statements():
    text = """for a in x:
    b = [c for c in a]
    d = [e + f for e in a for f in e if f]
    g = {k: v for k, v in a}
    s = [*a, 1, *b]
    t = {q for q in (r for r in a)}
    z = [[i for i in j] for j in a]
    for w in a:
        print(w)
"""
    code = compile(text, "here", "exec")
    loops = {one.offset for one in dis.get_instructions(code) if one.opname == "FOR_ITER"}
    assert comprehension_heads(code) < loops
    assert len(comprehension_heads(code)) == (7 if sys.version_info >= (3, 12) else 0)
    assert len(loops - comprehension_heads(code)) == 2


def test_a_newer_python_records_nothing_in_a_block_and_says_so(monkeypatch):
    monkeypatch.setattr(bytecode, "NEWEST", (3, 10))
    bytecode.events.cache_clear()
    x = torch.tensor(2.0, requires_grad=True)
    with bp.probe() as rec:
        y = x * 3
        y.backward()
    bytecode.events.cache_clear()
    assert x.grad == 3 and "y" not in rec
    running = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    assert any(f"the bytecode of {running} is not known" in note for note in rec.notes)
    assert bp.probe(lambda x: x * 3)(2.0)["x"].grad == 3


class Runs:
    """Programs of the corpus, each as a file of its own."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, text, **names):
        path = self.folder / "program.py"
        path.write_text(text)
        linecache.checkcache(str(path))
        space = {"__name__": "program", **names}
        exec(compile(text, str(path), "exec"), space)
        return space["result"], space["rec"]

    def block(self, body, probe, in_function):
        indented = textwrap.indent(body, "    ")
        text = f"{LEAVES}with probe as rec:\n{indented}    loss.backward()\nresult = loss, x.grad, w.grad\n"
        if in_function:
            names = "x, w, rec, result" if "global" in body else "rec, result"
            text = f"x = w = None\ndef main():\n    global {names}\n{textwrap.indent(text, '    ')}main()\n"
        return self.run(HEAD + text, probe=probe)

    def function(self, body):
        text = f"def program(x, w):\n{textwrap.indent(body, '    ')}    return loss\n{LEAVES}"
        return self.run(f"{HEAD}{text}rec = probe(program)(x, w)\nresult = rec.result\n", probe=bp.probe)[1]


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


def programs():
    known = PROGRAMS | (FROM_3_12 if sys.version_info >= (3, 12) else {})
    return pytest.mark.parametrize(("name", "body"), known.items(), ids=known.keys())


def told(rec):
    """What each name holds, and its gradient."""
    found = {}
    for entry in rec.values():
        held = entry.held
        number = held.tolist() if isinstance(held, torch.Tensor) else held
        gradient = None if entry.grad_or_none is None else entry.grad_or_none.tolist()
        found |= {name.replace("#0", ""): (number, gradient) for name in (entry.name, *entry.aliases)}
    return found


@programs()
def test_a_program_is_not_changed_and_told_as_when_rewritten(name, body, runs):
    of_module, of_function = (runs.block(body, bp.probe(), inside) for inside in (False, True))
    for inside, (result, rec) in ((False, of_module), (True, of_function)):
        assert repr(result) == repr(runs.block(body, nullcontext(), inside)[0])
        assert not any("not followed" in note for note in rec.notes)
    assert told(of_module[1]) == told(of_function[1])
    form = runs.function(body)
    of_block, rewritten = told(of_module[1]), told(form)
    own = ("x", "w", "return", *SEEN_OTHERWISE.get(name, ()))  # arguments, which a block may not read by themselves
    expected = {key: entry for key, entry in rewritten.items() if key.partition("#")[0] not in own}
    assert {key: of_block.get(key) for key in expected} == expected
    both = set(form).intersection(of_module[1]) - {"x", "w"}
    assert [key for key in form if key in both] == [key for key in of_module[1] if key in both]
