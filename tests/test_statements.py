"""Statements of every kind, in every form: the program does what it does without a probe, and names hold their values.

Each program runs bare, in a block of a module, of a function, of a generator and of a forward, as a probed function and
model, as a notebook cell and as a script. What it leaves in its variables is compared, and each gradient with
autograd's own.
"""

import ast
import builtins
import linecache
import sys
import textwrap
import types

import pytest
import torch

import backprobe as bp
from backprobe.backends.facts import Options
from backprobe.probe.cell import probe_cell
from backprobe.probe.request import Request
from backprobe.probe.script import Script
from backprobe.source.cell import Cell
from statement_programs import PROGRAMS
from varied_statements import VARIED

pytestmark = pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")

HEAD = "import torch\nimport backprobe as bp\nx = torch.tensor([1., 2., 3.], requires_grad=True)\n"
OURS = {"rec", "bp", "torch", "x", "builtins"}
PLAIN = int | float | str | bool | None | set
MOST = 5  # containers within containers
SHARED = {"i"}  # names of comprehensions too, whose bindings are counted with those of the function


def digest(value, depth=0):
    """What can be compared of a value of another run."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.detach().tolist(), value.requires_grad, value._version
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, list | tuple) and depth < MOST:
        return type(value).__name__, [digest(item, depth + 1) for item in value]
    if isinstance(value, type):
        value = {name: held for name, held in vars(value).items() if name[:2] != "__" and not callable(held)}
    elif hasattr(value, "__dict__") and not callable(value) and not isinstance(value, types.ModuleType):
        value = {"": type(value).__name__, **vars(value)}
    if isinstance(value, dict) and depth < MOST:
        return {str(key): digest(item, depth + 1) for key, item in value.items()}
    return type(value).__name__


def state(names):
    return {name: digest(value) for name, value in names.items() if name not in OURS and name[:2] != "__"}


def gradients(names):
    wanted = {name: value for name, value in names.items() if isinstance(value, torch.Tensor) and value.requires_grad}
    found = torch.autograd.grad(names["loss"], [*wanted.values()], allow_unused=True, retain_graph=True)
    return {name: None if grad is None else grad.tolist() for name, grad in zip(wanted, found, strict=True)}


def without_self(names):
    return {name: value for name, value in names["kept"][0].items() if name != "self"}


def compiled(*given):
    return compile(*given, dont_inherit=True)


class Runs:
    """One program in every form, each of them in a file of its own."""

    def __init__(self, folder, body):
        self.folder, self.body = folder, textwrap.dedent(body)
        self.count = 0

    def module(self, text):
        self.count += 1
        file = self.folder / f"statements_{self.count}.py"
        file.write_text(text)
        linecache.checkcache(str(file))
        module = types.ModuleType(file.stem)
        module.__file__ = str(file)
        sys.modules[module.__name__] = module
        try:
            exec(compile(text, str(file), "exec"), vars(module))
        finally:
            del sys.modules[module.__name__]
        return vars(module)

    def inside(self, head, depth, tail):
        return self.module(HEAD + head + textwrap.indent(self.body, " " * depth) + tail)

    def bare_module(self):
        return self.module(HEAD + self.body)

    def bare_function(self):
        names = self.inside("def main(x):\n", 4, "    return dict(locals())\n")
        return names["main"](names["x"])

    def of_module(self):
        names = self.inside("with bp.probe() as rec:\n", 4, "    loss.backward()\n")
        return names, names["rec"]

    def of_function(self):
        names = self.inside(
            "def main(x):\n    with bp.probe() as rec:\n", 8, "        loss.backward()\n    return dict(locals())\n"
        )
        names = names["main"](names["x"])
        return names, names["rec"]

    def of_generator(self):
        names = self.inside(
            "def main(x):\n    with bp.probe(nonfinite=True) as rec:\n",
            8,
            "        yield\n        loss.backward()\n    yield dict(locals())\n",
        )
        names = [*names["main"](names["x"])][-1]
        return names, names["rec"]

    def function(self):
        names = self.inside("kept = []\ndef main(x):\n", 4, "    kept.append(dict(locals()))\n    return loss\n")
        rec = bp.probe(names["main"])(names["x"])
        return names["kept"][0], rec

    def of_model(self):
        head = "kept = []\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        tail = "        kept.append(dict(locals()))\n        return loss\nmodel = Model()\n"
        names = self.inside(head, 8, tail)
        rec = bp.probe(names["model"], ["**", "**:*"])(names["x"])
        return without_self(names), rec

    def in_a_forward(self):
        head = "kept = []\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        with bp.probe() as rec:\n"
        tail = "            loss.backward()\n        kept.append(dict(locals()))\nModel()(x)\n"
        names = without_self(self.inside(head, 12, tail))
        return names, names["rec"]

    def cell(self):
        file = self.folder / "cell.py"
        file.write_text(self.body)
        module = types.ModuleType("statements_cell")
        module.torch, module.x = torch, torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        names = vars(module)
        sys.modules[module.__name__] = module
        try:
            cell = Cell(ast.parse(self.body), (*self.body.splitlines(),), str(file), compiled, names, names)
            rec = probe_cell(cell, of="loss")
        finally:
            del sys.modules[module.__name__]
        return names, rec

    def script(self):
        file = self.folder / "script.py"
        file.write_text(HEAD + self.body + "loss.backward()\nimport builtins\nbuiltins.left = dict(globals())\n")
        try:
            Script(Request(None, options=Options(nonfinite=True)), str(file), []).run()
            return builtins.left, None
        finally:
            del builtins.left


def assert_same(form, names, rec, bare):
    assert state(names) == state(bare), form
    assert not any("has changed" in note for note in (() if rec is None else rec.notes)), form
    for name, gradient in gradients(bare).items() if rec is not None else ():
        if name in OURS | SHARED:
            continue
        try:
            entry = rec[name]
        except bp.AmbiguousName:
            entry = rec[name + "#-1"]
        except bp.UnknownName:
            assert f":{name}" in "".join(rec), (form, name)  # a global that a function assigns
            continue
        found = None if entry.held_grad is None else entry.held_grad.tolist()
        assert found == gradient, (form, name)


ALL = PROGRAMS | VARIED


@pytest.mark.parametrize("program", ALL)
def test_a_program_does_in_every_form_what_it_does_without_a_probe(program, tmp_path):
    runs = Runs(tmp_path, ALL[program])
    in_module, in_function = runs.bare_module(), runs.bare_function()
    for form in (runs.of_module, runs.cell, runs.script):
        assert_same(form.__name__, *form(), in_module)
    for form in (runs.of_function, runs.of_generator, runs.function, runs.of_model, runs.in_a_forward):
        assert_same(form.__name__, *form(), in_function)


def test_a_manager_may_use_what_the_one_before_it_was_bound_to():
    class Given:
        def __init__(self, *values):
            self.values = values

        def __enter__(self):
            return self.values

        def __exit__(self, *error):
            return None

    def f(x):
        with Given(x * 2, 3) as (p, q), Given(p * q) as [r], Given(r) as s:
            t = s[0] * p
        return t.sum()

    rec = bp.probe(f)(torch.ones(2))
    assert rec["t"].value.tolist() == [12.0, 12.0]
    assert rec["p"].grad.tolist() == [12.0, 12.0]
    assert "p" in [read.name for read in rec["r"].reads]


def test_a_variable_of_the_function_outside_that_a_comprehension_hides():
    def outside(x):
        k = x * 2

        def inside():
            before = k + 1
            each = [k * 3 for k in (before, before)]
            return each[0].sum() + k.sum()

        return inside()

    x = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        loss = outside(x)
        loss.backward()
    assert x.grad.tolist() == [8.0, 8.0]
    assert rec["/outside/inside:before"].grad.tolist() == [3.0, 3.0]
