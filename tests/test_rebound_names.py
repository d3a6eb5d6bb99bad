"""Names that were bound to something else: the error comes out with the line that defined the name, the line that took
it, and what to type."""

import ast
import functools
import importlib.util
import symtable
import sys
import textwrap
import traceback
from pathlib import Path

import pytest
import torch
from torch import nn, optim
from torch.autograd import grad  # noqa: F401  # a loop variable of a test takes its name

import backprobe as bp
from asked import round_trip
from backprobe.source.rebound_names import rebound_name
from backprobe.source.scopes import SourceNames, SourceText
from block_cases import nothing_left
from commands import forked, in_folder, invoked, python
from sampled import sampled

HEAD = "backprobe: raised while running"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module with a text, imported from a file of its own."""
    monkeypatch.chdir(tmp_path)
    made = []

    def load(text):
        name = f"rebound_{len(made)}_{tmp_path.name}"
        (tmp_path / "toy.py").write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(name, tmp_path / "toy.py")
        loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
        made.append(name)
        spec.loader.exec_module(loaded)
        return loaded

    yield load
    for name in made:
        del sys.modules[name]


def error_of(call):
    """The error that a call raises."""
    with pytest.raises((TypeError, AttributeError, UnboundLocalError)) as caught:
        call()
    return caught.value


def note_of(call, message=None):
    """The last note of the error that a call raises, which is about a name."""
    error = error_of(call)
    assert message is None or message in str(error)
    return error.__notes__[-1]


def lines_in(error, file):
    """The lines of a file that a traceback goes through."""
    return [step.lineno for step in traceback.extract_tb(error.__traceback__) if step.filename.endswith(file)]


# the function form: every way to take a name

IMPORTS = """\
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.autograd import grad
"""
BUILTIN = "'{}' is not Python's own {} in f(): {} has that name there"

TAKEN = {
    "a loop variable": (
        """\
        for name, grad in zip("xw", (x, w)): pass
        return grad(x * w, x)
        """,
        "'grad' is not the imported function in f(): a loop variable has that name there",
        ("toy.py:4: from torch.autograd import grad", 'toy.py:7: for name, grad in zip("xw", (x, w)): pass'),
        'another name for the loop variable: `for name, grad_ in zip("xw", (x, w)): pass`;\n'
        "or torch.autograd.grad(...), which is still there",
    ),
    "a loop variable that its own line reads": (
        """\
        for max in (x, w): print(max)
        return max(x, w)
        """,
        BUILTIN.format("max", "function", "a loop variable"),
        ("", "toy.py:7: for max in (x, w): print(max)"),
        "another name for the loop variable: `for max_ in (x, w): print(max_)`",
    ),
    "an assignment": (
        """\
        sum = (x * w).sum()
        return sum([x, w]) + sum
        """,
        BUILTIN.format("sum", "function", "an assignment"),
        ("", "toy.py:7: sum = (x * w).sum()"),
        "another name for the result: `sum_ = (x * w).sum()`\nand where that is read",
    ),
    "a class of Python": (
        """\
        list = [x, w]
        return list((x, w))
        """,
        BUILTIN.format("list", "class", "an assignment"),
        ("", "toy.py:7: list = [x, w]"),
        "another name for the result: `list_ = [x, w]`,\nif Python's own class is meant",
    ),
    "a walrus": (
        """\
        if (len := x.sum()) is not None:
            return len([x])
        """,
        BUILTIN.format("len", "function", "an assignment (:=)"),
        ("", "toy.py:7: if (len := x.sum()) is not None:"),
        "another name for the result: `if (len_ := x.sum()) is not None:`,\nif Python's own function is meant",
    ),
    "a with statement": (
        """\
        with torch.enable_grad() as grad:
            u = x * w
        return grad(u, x)
        """,
        "'grad' is not the imported function in f(): the variable of a with statement has that name there",
        ("toy.py:4: from torch.autograd import grad", "toy.py:7: with torch.enable_grad() as grad:"),
        "another name for the variable: `with torch.enable_grad() as grad_:`;\n"
        "or torch.autograd.grad(...), which is still there",
    ),
    "an except clause": (
        """\
        try:
            raise ValueError
        except ValueError as sum: return sum([x, w])
        """,
        BUILTIN.format("sum", "function", "the variable of an except clause"),
        ("", "toy.py:9: except ValueError as sum: return sum([x, w])"),
        "another name for the error: `except ValueError as sum_: return sum([x, w])`,\n"
        "if Python's own function is meant",
    ),
    "a comprehension": (
        """\
        return torch.stack([max(max, w) for max in (x, w)])
        """,
        "'max' is not Python's own function in this comprehension: its own variable has that name there",
        ("", "toy.py:7: return torch.stack([max(max, w) for max in (x, w)])"),
        "another name for the variable: `return torch.stack([max(max_, w) for max_ in (x, w)])`,\n"
        "if Python's own function is meant",
    ),
    "a generator": (
        """\
        return sum(abs(x) for abs in (x, w))
        """,
        "'abs' is not Python's own function in this comprehension: its own variable has that name there",
        ("", "toy.py:7: return sum(abs(x) for abs in (x, w))"),
        "another name for the variable: `return sum(abs(x) for abs_ in (x, w))`,\nif Python's own function is meant",
    ),
    "an assignment to the alias of a module": (
        """\
        F = x * w
        return F.mse_loss(x, w)
        """,
        "'F' is not the imported module in f(): an assignment has that name there",
        ("toy.py:2: import torch.nn.functional as F", "toy.py:7: F = x * w"),
        "another name for the result: `F_ = x * w`;\nor torch.nn.functional.mse_loss(...), which is still there",
    ),
    "a tensor with a method of the same name": (
        """\
        F = x * w
        return F.relu(x) + F
        """,
        "'F' is not the imported module in f(): an assignment has that name there",
        ("toy.py:2: import torch.nn.functional as F", "toy.py:7: F = x * w"),
        "another name for the result: `F_ = x * w`\nand where that is read;\n"
        "or torch.nn.functional.relu(...), which is still there",
    ),
    "a name that is local because it is assigned": (
        """\
        torch = torch.tensor(1.0)
        return torch * x
        """,
        "'torch' is not the imported module anywhere in f(): an assignment makes the name a local one",
        ("toy.py:1: import torch", "toy.py:7: torch = torch.tensor(1.0)"),
        "another name for the result: `torch_ = torch.tensor(1.0)`\nand where that is read",
    ),
    "the result of a loss in the place of the loss": (
        """\
        loss = nn.MSELoss()
        for _ in range(2):
            loss = loss(x, w)
        return loss
        """,
        "'loss' is no longer what `nn.MSELoss()` gave: an assignment has taken its name",
        ("toy.py:7: loss = nn.MSELoss()", "toy.py:9: loss = loss(x, w)"),
        "another name for the result: `loss_ = loss(x, w)`\nand where that is read",
    ),
    "the result of a function that no one knows": (
        """\
        slope = torch.func.grad(lambda x: x * 2)
        slope = slope(x)
        return slope(w)
        """,
        "'slope' is no longer what `torch.func.grad(lambda x: x * 2)` gave: an assignment has taken its name",
        ("toy.py:7: slope = torch.func.grad(lambda x: x * 2)", "toy.py:8: slope = slope(x)"),
        "another name for the result: `slope_ = slope(x)`",
    ),
    "the output of a model in the place of the model": (
        """\
        model = nn.Linear(1, 1)
        model = model(x[None])
        return model.weight
        """,
        "'model' is no longer what `nn.Linear(1, 1)` gave: an assignment has taken its name",
        ("toy.py:7: model = nn.Linear(1, 1)", "toy.py:8: model = model(x[None])"),
        "another name for the result: `model_ = model(x[None])`",
    ),
    "a function in the place of a dict": (
        """\
        data = {"x": x}
        def data(): return w
        return data["x"]
        """,
        "'data' is no longer `{'x': x}`: a function has taken its name",
        ('toy.py:7: data = {"x": x}', "toy.py:8: def data(): return w"),
        "another name for the function: `def data_(): return w`,\nif `{'x': x}` is meant",
    ),
    "a number in the place of a function defined here": (
        """\
        def scale(x): return x * 2
        u = scale(x)
        scale = 0.5
        return scale(u)
        """,
        "'scale' is no longer the function: an assignment has taken its name",
        ("toy.py:7: def scale(x): return x * 2", "toy.py:9: scale = 0.5"),
        "another name for the result: `scale_ = 0.5`,\nif the function is meant",
    ),
    "an import of a module after one of its function": (
        """\
        from time import time
        import time
        return x * time()
        """,
        "'time' is no longer the imported function: an import has taken its name",
        ("toy.py:7: from time import time", "toy.py:8: import time"),
        "import it under another name: `import time as time_`;\nor time.time(...), which is still there",
    ),
    "a pattern": (
        """\
        match [x, w]:
            case [sum, *_]: pass  # the first
        return sum([x, w])
        """,
        BUILTIN.format("sum", "function", "the variable of a pattern"),
        ("", "toy.py:8: case [sum, *_]: pass  # the first"),
        "another name in the pattern: `case [sum_, *_]: pass`",
    ),
    "one of two lines": (
        """\
        if x > 0:
            sum = x
        else:
            sum = w
        return sum([x, w])
        """,
        BUILTIN.format("sum", "function", "an assignment"),
        ("", "toy.py:8: sum = x\nor toy.py:10: sum = w"),
        "another name for the result: `sum_ = w`,\nand so at toy.py:8,\nif Python's own function is meant",
    ),
    "the last of several lines": (
        """\
        sum = x
        sum = w
        return sum([x,
                    w])
        """,
        BUILTIN.format("sum", "function", "an assignment"),
        ("", "toy.py:8: sum = w"),
        "another name for the result: `sum_ = w`,\nand so at toy.py:7,\nif Python's own function is meant",
    ),
    "the callee, and not the argument": (
        """\
        abs, grad = x, w
        return max(1, len(grad(abs * w, abs)))
        """,
        "'grad' is not the imported function in f(): an assignment has that name there",
        ("toy.py:4: from torch.autograd import grad", "toy.py:7: abs, grad = x, w"),
        "another name for the result: `abs, grad_ = x, w`,\nif the imported function is meant;\n"
        "or torch.autograd.grad(...), which is still there",
    ),
    "a name of the function around": (
        """\
        sum = x
        def inner(): return sum([x, w])
        return inner()
        """,
        BUILTIN.format("sum", "function", "an assignment"),
        ("", "toy.py:7: sum = x"),
        "another name for the result: `sum_ = x`,\nif Python's own function is meant",
    ),
}


def expected(headline, lines, remedy):
    """A note of these parts."""
    defined, rebound = lines
    parts = [("defined: ", defined), ("rebound: ", rebound), ("next:    ", remedy)]
    return "\n".join(
        [
            f"backprobe: {headline}",
            *(f"  {label}" + text.replace("\n", "\n" + " " * 11) for label, text in parts if text),
        ]
    )


@pytest.mark.parametrize("case", TAKEN)
def test_a_probed_function(case, module):
    body, *said = TAKEN[case]
    toy = module(f"{IMPORTS}\ndef f(x, w):\n{textwrap.indent(textwrap.dedent(body), '    ')}")
    x, w = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    plain, error = error_of(lambda: toy.f(x, w)), error_of(lambda: bp.probe(toy.f)(x, w))
    assert (type(error), str(error)) == (type(plain), str(plain))
    assert lines_in(error, "toy.py") == lines_in(plain, "toy.py")
    first, *others = error.__notes__
    assert first.startswith(HEAD) and others == [expected(*said)]


@pytest.mark.parametrize("case", TAKEN)
def test_the_line_that_is_to_be_typed_helps(case, module):
    """The program that has it, and the new name where the note says that the old one is read, runs."""
    body, _, (_, rebound), remedy = TAKEN[case]
    if "that is read" in remedy or "and so at" in remedy:
        return
    line, new = rebound.partition(": ")[2], remedy.partition("`")[2].partition("`")[0]
    (at,) = [at for at, own in enumerate(textwrap.dedent(body).splitlines()) if own.strip() == line]
    lines = textwrap.dedent(body).splitlines()
    lines[at] = lines[at].replace(line, new)
    toy = module(f"{IMPORTS}\ndef f(x, w):\n" + "".join(f"    {own}\n" for own in lines))
    toy.f(torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True))


# arguments


ARGUMENT = """\
from torch import optim

def step(optim, w):
    optim.zero_grad()
    return optim.SGD([w])

def mean(x, sum):
    return sum(x) / 2
"""


def test_an_argument_that_hides_a_module(module):
    toy = module(ARGUMENT)
    w = torch.ones(2, requires_grad=True)
    assert note_of(lambda: bp.probe(toy.step)(optim.SGD([w], 0.1), w), "no attribute 'SGD'") == expected(
        "'optim' is not the imported module in step(): an argument has that name there",
        ("toy.py:1: from torch import optim", "toy.py:3: def step(optim, w):"),
        "another name for the argument: `def step(optim_, w):`\nand where that is read,\n"
        "if the imported module is meant",
    )


def test_an_argument_that_is_called_may_be_meant(module):
    toy = module(ARGUMENT)
    assert note_of(lambda: bp.probe(toy.mean)(torch.ones(2), torch.ones(2))) == expected(
        "'sum' is not Python's own function in mean(): an argument has that name there",
        ("", "toy.py:7: def mean(x, sum):"),
        "another name for the argument: `def mean(x, sum_):`,\nif Python's own function is meant;\n"
        "or give mean() a function for sum",
    )


def test_a_number_in_the_place_of_a_function_gets_no_word_about_what_was_lifted(module):
    error = error_of(lambda: bp.probe(module(ARGUMENT).mean)(2.0, 3.0))
    assert [note.partition(":")[2][:10] for note in error.__notes__] == [" raised wh", " 'sum' is "]


# attributes

TRAINER = """\
import torch
from torch import nn

class Trainer:
    def __init__(self):
        self.criterion = nn.MSELoss()

    def loss(self, x):
        return x.square().sum()

    def step(self, x):
        self.loss = self.loss(x)
        return self.loss

    def compare(self, x):
        self.criterion = self.criterion(x, 2 * x)
        return self.criterion

class Net(nn.Module):
    def pool(self, h):
        return h.mean()

    def forward(self, x):
        self.pool = self.pool(x)
        return self.pool

def twice(call, x):
    call(x)
    return call(x)

def evaluated(x):
    net = nn.Linear(2, 1)
    net.eval = [1, 2]
    return net.eval()
"""


@pytest.mark.parametrize(
    ("method", "headline", "lines", "remedy"),
    [
        (
            "step",
            "'self.loss' is no longer the method: an assignment has taken its name",
            ("toy.py:8: def loss(self, x):", "toy.py:12: self.loss = self.loss(x)"),
            "another name for the result: `self.loss_ = self.loss(x)`\nand where that is read",
        ),
        (
            "compare",
            "'self.criterion' is no longer what `nn.MSELoss()` gave: an assignment has taken its name",
            ("toy.py:6: self.criterion = nn.MSELoss()", "toy.py:16: self.criterion = self.criterion(x, 2 * x)"),
            "another name for the result: `self.criterion_ = self.criterion(x, 2 * x)`\nand where that is read",
        ),
    ],
)
def test_a_method_that_is_rebound_on_the_object(module, method, headline, lines, remedy):
    toy = module(TRAINER)
    call = getattr(toy.Trainer(), method)
    assert note_of(lambda: bp.probe(toy.twice)(call, torch.ones(2, requires_grad=True))) == expected(
        headline, lines, remedy
    )


def test_a_method_of_a_model_that_is_rebound_in_its_forward(module):
    net, x = module(TRAINER).Net(), torch.ones(2, requires_grad=True)
    assert bp.probe(net)(x).outputs
    assert note_of(lambda: bp.probe(net)(x)) == expected(
        "'self.pool' is no longer the method: an assignment has taken its name",
        ("toy.py:20: def pool(self, h):", "toy.py:24: self.pool = self.pool(x)"),
        "another name for the result: `self.pool_ = self.pool(x)`\nand where that is read",
    )


def test_a_method_of_a_library_that_is_rebound_in_the_line_before(module):
    note = note_of(lambda: bp.probe(module(TRAINER).evaluated)(torch.ones(2)))
    assert note.startswith("backprobe: 'net.eval' is no longer the method: an assignment has taken its name\n")
    assert "/torch/nn/modules/module.py:" in note and "  rebound: toy.py:33: net.eval = [1, 2]\n" in note


# models


class Pooling(nn.Module):
    def forward(self, x):
        max = x.max()
        return torch.stack([max(x.sum(), y) for y in x]).sum()


@pytest.mark.parametrize("select", [None, ["**", "**:*"]])
def test_a_model(select):
    note = note_of(lambda: bp.probe(Pooling(), select)(torch.ones(2, requires_grad=True)))
    assert note.startswith("backprobe: 'max' is not Python's own function in forward(): an assignment has that name ")
    assert note.endswith(
        "  next:    another name for the result: `max_ = x.max()`,\n           if Python's own function is meant"
    )


# blocks: the note, and the finding


def test_a_block():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="'Tensor' object is not callable") as caught, bp.probe() as rec:
        u = x * 2
        for name, grad in zip("u", (u,)):
            pass
        slopes = grad(u.sum(), x)  # of what is imported above
    text = """"u", (u,)):"""
    note = caught.value.__notes__[-1]
    assert "'grad' is not the imported function in test_a_block(): a loop variable has that name there" in note
    report = bp.explain(rec)
    (found,) = report.of_kind("rebound")
    assert report.findings[0] is found and not report.of_kind("raised")
    assert (found.name, found.source.text) == ("grad", f"for name, grad in zip({text}")
    assert found.headline in note and found.remedy.splitlines()[0] in note
    raised, defined, after = found.facts
    assert raised.startswith("the program raised TypeError: 'Tensor' object is not callable (")
    assert raised.endswith(": slopes = grad(u.sum(), x)  # of what is imported above)")
    assert defined.startswith("it was defined at ") and ": from torch.autograd import grad" in defined
    assert after == "what comes after this line was not recorded, and gradients are those that had arrived by then"
    (noted,) = [one for one in rec.notes if "grad" in str(one)]
    assert str(noted).startswith(f"{raised}: 'grad' is not the imported function")


def test_a_block_around_a_model():
    net = nn.Linear(2, 1)
    with pytest.raises(TypeError), bp.probe(net) as rec:
        sum = net(torch.ones(1, 2)).sum()
        sum.backward()
        sum([1, 2])
    (found,) = bp.explain(rec).of_kind("rebound")
    assert found.source.text == "sum = net(torch.ones(1, 2)).sum()"
    assert rec["weight"].grad is not None


def test_a_saved_recording_says_the_same(tmp_path):
    with pytest.raises(TypeError), bp.probe() as rec:
        sum = torch.ones(2, requires_grad=True).sum()
        sum([1, 2])
    loaded = round_trip(rec, tmp_path)
    assert str(bp.explain(loaded)) == str(bp.explain(rec))
    assert bp.explain(loaded).of_kind("rebound") and list(map(str, loaded.notes)) == list(map(str, rec.notes))


def test_nothing_is_left_of_a_block_whose_error_was_explained():
    x = torch.ones(2, requires_grad=True)
    with nothing_left():
        try:
            with bp.probe():
                sum = (x * 2).sum()
                sum([1, 2])
        except TypeError as error:
            assert "'sum' is not Python's own function" in error.__notes__[-1]
        del sum


def test_an_error_that_the_program_catches_is_its_own():
    x = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        sum = (x * 2).sum()
        try:
            sum([1, 2])
        except TypeError as error:
            assert not hasattr(error, "__notes__")
        sum.backward()
    assert bp.explain(rec).ok and not rec.notes


def test_nothing_is_looked_for_where_no_error_comes_out(monkeypatch):
    def never(error):
        raise AssertionError(error)

    for name in ("block", "error_notes", "function"):
        there = sys.modules[f"backprobe.probe.{name}"]
        for wanted in ("rebound_note", "rebound_reason"):
            if hasattr(there, wanted):
                monkeypatch.setattr(there, wanted, never)
    x = torch.ones(2, requires_grad=True)
    assert bp.probe(lambda x: (x * 2).sum())(x)["return"].grad is not None
    with bp.probe() as rec:
        (x * 2).sum().backward()
    assert rec["x"].grad is not None


# what nothing is said of: the definition, the rebinding or the callee is not certain

SILENT = {
    "bound once": """\
        u = x * w
        return u(3)
        """,
    "the result of a call": """\
        return (x * w)(3)
        """,
    "an item": """\
        grad = [x, w]
        return grad[0](x)
        """,
    "rebound afterwards": """\
        u = x(w)
        def x(): return w
        return u
        """,
    "defined in another scope of the same name": """\
        def inner():
            def scale(x): return x
            return scale(x)
        scale = inner()
        return scale(w)
        """,
    "an argument that nothing outside is called like": """\
        def apply(function, x): return function(x)
        return apply(w, x)
        """,
    "a fallback in a branch that did not run": """\
        if x is None:
            def act(x): return x
        else:
            act = None
        return act(x)
        """,
    "a name that is defined again before the call": """\
        sum = x
        def sum(values): return values()
        return sum(w)
        """,
    "an argument of the callee": """\
        key = x * w
        return sorted([x, w], key=key)
        """,
    "what is called raises the same": """\
        def scale(x): return x
        def called(x): raise TypeError("'Tensor' object is not callable")
        scale = called
        return scale(x)
        """,
    "an attribute that neither has": """\
        F = x * w
        return F.nowhere
        """,
    "a variable of a lambda that is not called": """\
        return (lambda sum: x + sum.nowhere)(w)
        """,
    "what the other holds is no function either": """\
        scale = 2.0
        scale = x * w
        return scale(x)
        """,
    "another error of the right function": """\
        return sum(3)
        """,
    "a definition whose line never runs before": """\
        for _ in range(1):
            u = x * w
            if u is None:
                def u(x): return x
        return u(w)
        """,
    "a local name whose branch did not run": """\
        if x is None:
            input = x
        return input + w
        """,
    "deleted": """\
        sum = x
        del sum
        return sum([x, w])
        """,
}


@pytest.mark.parametrize("case", SILENT)
def test_nothing_is_said_of(case, module):
    toy = module(f"{IMPORTS}\ndef f(x, w):\n{textwrap.indent(textwrap.dedent(SILENT[case]), '    ')}")
    x, w = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    plain, probed = error_of(lambda: toy.f(x, w)), error_of(lambda: bp.probe(toy.f)(x, w))
    assert rebound_name(plain) is None and str(probed) == str(plain)
    assert [note for note in probed.__notes__ if not note.startswith(HEAD)] == []


def test_nothing_is_said_of_a_function_that_is_called_before_the_module_rebinds_its_name(module, tmp_path):
    (tmp_path / "toy.py").write_text("def f(x): return len(x)\nu = f(3)\nlen = 4\n")
    spec = importlib.util.spec_from_file_location("toy_before", tmp_path / "toy.py")
    error = error_of(lambda: spec.loader.exec_module(importlib.util.module_from_spec(spec)))
    assert rebound_name(error) is None


def test_nothing_is_said_of_an_error_in_a_library():
    with pytest.raises(TypeError, match="not callable") as caught, bp.probe():
        sum = torch.ones(2, requires_grad=True).sum()
        functools.reduce(sum, [1, 2])
    assert [note for note in caught.value.__notes__ if "'sum' is" in note] == []
    module = nn.Module()
    with pytest.raises(TypeError, match="not callable") as caught, bp.probe():
        max = torch.ones(2, requires_grad=True).sum()
        module.apply(max)
    assert [note for note in caught.value.__notes__ if "'max' is" in note] == []


def test_nothing_is_said_of_code_without_a_text():
    names = {"x": torch.ones(2, requires_grad=True)}
    assert rebound_name(error_of(lambda: exec("sum = x\nsum([x])", names))) is None


def test_nothing_is_said_where_the_file_has_changed_since(module, tmp_path):
    toy = module(ARGUMENT)
    path = tmp_path / "toy.py"
    path.write_text(ARGUMENT.replace("/ 2", "/ 3"))
    assert rebound_name(error_of(lambda: toy.mean(torch.ones(2), 3))) is None
    path.write_text(ARGUMENT)
    assert rebound_name(error_of(lambda: toy.mean(torch.ones(2), 3))).name == "sum"


def test_none_that_is_called_raises_as_without_a_probe():
    def f(x):
        activation = None
        return activation(x)

    assert str(error_of(lambda: bp.probe(f)(1.0))) == "'NoneType' object is not callable"


# the scopes are those of Python


KINDS = {
    ast.Lambda: "lambda",
    ast.ListComp: "listcomp",
    ast.SetComp: "setcomp",
    ast.DictComp: "dictcomp",
    ast.GeneratorExp: "genexpr",
}


def tables_of(table):
    """A symbol table, and those inside it, by name and line."""
    found = {(table.get_name(), table.get_lineno()): [table]}
    for inner in table.get_children():
        for place, tables in tables_of(inner).items():
            found.setdefault(place, []).extend(tables)
    return found


@pytest.mark.parametrize("folder", sampled(["source", "explain", "tracing", "backends/torch"], "tracing"))
def test_the_compiler_has_each_name_in_the_same_scope(folder):
    judged = 0
    for path in sorted((Path(bp.__file__).parent / folder).glob("*.py")):
        text = path.read_text()
        names = SourceNames([SourceText(str(path), tuple(text.splitlines(keepends=True)), ast.parse(text))])
        tables = tables_of(symtable.symtable(text, str(path), "exec"))
        for node, scope in names.scopes.items():
            if scope.parent is None or not isinstance(node.ctx, ast.Load):
                continue
            known = tables.get((KINDS.get(type(scope.node)) or scope.node.name, scope.node.lineno), [])
            if len(known) != 1 or node.id not in known[0].get_identifiers():
                continue  # two comprehensions in a line; an annotation
            symbol, holder = known[0].lookup(node.id), scope.holder(node.id)
            is_global = holder is None or holder.parent is None
            assert (symbol.is_global(), symbol.is_free()) == (is_global, not is_global and holder is not scope), node.id
            judged += 1
    assert judged > 1000


# scripts

SEED = """\
import torch
from torch.autograd import grad

x = torch.tensor([3.], requires_grad=True)
w = torch.tensor([2.], requires_grad=True)
a = torch.relu(x * w)
d_a_x, d_a_w = grad(a, x, retain_graph=True), grad(a, w, retain_graph=True)
for name, grad in zip("xw", (d_a_x, d_a_w)):
    print('d_a_%s:' % name, grad)
derivatives = grad(a, (x, w))
"""
SAID = """\
backprobe: 'grad' is no longer the imported function: a loop variable has taken its name
  defined: seed.py:2: from torch.autograd import grad
  rebound: seed.py:8: for name, grad in zip("xw", (d_a_x, d_a_w)):
  next:    another name for the loop variable: `for name, grad_ in zip("xw", (d_a_x, d_a_w)):`
           and where that is read;
           or torch.autograd.grad(...), which is still there
"""
FOUND = """\
  'grad' is no longer the imported function (seed.py:8): a loop variable has taken its name
    line:  for name, grad in zip("xw", (d_a_x, d_a_w)):
    seen:  the program raised TypeError: 'tuple' object is not callable (seed.py:10: derivatives = grad(a, (x, w)))
    seen:  it was defined at seed.py:2: from torch.autograd import grad
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    files = {
        "seed.py": SEED,
        "plain.py": "import math\nsum = math.pi\nprint('before')\nprint(sum([1, 2]))\n",
        "called.py": SEED.replace("derivatives", "def f(x):\n    return x * 2\nderivatives"),
        "functions.py": f"{IMPORTS}\ndef f(x, w):\n    for grad in (x, w): pass\n    return grad(x * w, x)\n",
        "inside.py": SEED.replace("derivatives = ", "def main():\n    return ") + "main()\n",
    }
    with in_folder(tmp_path, monkeypatch, files) as made:
        yield made


def test_the_seed_as_a_script(folder):
    code, out, err = invoked("explain", "seed.py")
    assert code == 3
    assert "TypeError: 'tuple' object is not callable\n" in err and SAID in err
    assert "d_a_x: (tensor([2.]),)\nd_a_w: (tensor([3.]),)\n" in out and FOUND in out
    assert err.count("backprobe: 'grad'") == out.count("its name") == 1


def test_the_seed_as_a_script_in_a_process_of_its_own(folder):
    code, out, err = forked("-m", "backprobe", "explain", "seed.py")
    assert code == 3 and SAID in err and FOUND in out


def test_the_call_in_a_function_of_the_script(folder):
    code, out, err = invoked("explain", "inside.py")
    assert code == 3 and SAID.replace("seed.py", "inside.py") in err
    assert "seen:  it was defined at inside.py:2: from torch.autograd import grad\n" in out


def test_a_script_in_which_nothing_is_recorded(folder):
    code, out, err = python("-m", "backprobe", "explain", "plain.py")
    assert code == 3 and err.count("backprobe: 'sum' is no longer Python's own function") == 1
    assert (
        out
        == """\
before
the program raised TypeError: 'float' object is not callable
  'sum' is no longer Python's own function (plain.py:2): an assignment has taken its name
    line:  sum = math.pi
    seen:  the program raised TypeError: 'float' object is not callable (plain.py:4: print(sum([1, 2])))
    next:  another name for the result: `sum_ = math.pi`,
           if Python's own function is meant
"""
    )


@pytest.mark.parametrize("words", [("probe", "functions.py:f"), ("explain", "functions.py:f", "u")])
def test_a_function_of_a_file(folder, words):
    code, out, err = invoked(*words, "x=2.0", "w=3.0")
    assert (code, out) == (3, "")
    assert err.count("backprobe: 'grad' is not the imported function in f(): a loop variable has that name there") == 1


def test_a_file_that_cannot_be_imported_for_it(folder):
    code, _, err = invoked("probe", "called.py:f", "x=2.0")
    assert code == 3 and SAID.replace("seed.py", "called.py") in err


# notebooks


@pytest.fixture
def run(monkeypatch):
    """Run the cells of a notebook; the error of the last, and what it shows."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    monkeypatch.delattr("builtins._", raising=False)
    main, hooks = sys.modules["__main__"], (sys.excepthook, sys.displayhook)
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(
        config=Config(HistoryManager={"enabled": False}, InteractiveShell={"colors": "nocolor"})
    )
    bp.load_ipython_extension(shell)

    def run(*texts):
        for text in texts:
            with capture_output() as shown:
                result = shell.run_cell(text, store_history=True)
        return result.error_in_exec, shown.stdout

    yield run
    InteractiveShell.clear_instance()
    shell.restore_sys_module_state()
    sys.modules["__main__"] = main
    sys.excepthook, sys.displayhook = hooks


CELLS = (
    "import torch\nimport backprobe as bp",
    "from torch.autograd import grad\nx = torch.tensor([3.], requires_grad=True)\na = x * 2",
    "for name, grad in zip('x', grad(a, x, retain_graph=True)):\n    print(name, grad)",
)


@pytest.mark.parametrize(
    "cell", ["%%probe a\na = x * 3\nslopes = grad(a, x)", "with bp.probe() as rec:\n    a = x * 3\n    grad(a, x)"]
)
def test_a_name_that_an_earlier_cell_defined_and_another_took(run, cell):
    error, shown = run(*CELLS, cell)
    assert str(error) == "'Tensor' object is not callable"
    assert error.__notes__[-1] == expected(
        "'grad' is no longer the imported function: a loop variable has taken its name",
        (
            "In[2]:1: from torch.autograd import grad",
            "In[3]:1: for name, grad in zip('x', grad(a, x, retain_graph=True)):",
        ),
        "another name for the loop variable: `for name, grad_ in zip('x', grad(a, x, retain_graph=True)):`\n"
        "and where that is read;\nthen run In[2] again, for until then grad stays what it is now;\n"
        "or torch.autograd.grad(...), which is still there",
    )
    assert "'grad' is no longer the imported function" in shown


def test_a_name_that_the_same_cell_takes(run):
    error, _ = run(*CELLS[:2], "%%probe a\nsum = x * 2\na = torch.relu(sum)\ntotal = sum([1, 2])")
    assert error.__notes__[-1] == expected(
        "'sum' is no longer Python's own function: an assignment has taken its name",
        ("", "In[3]:1: sum = x * 2"),
        "another name for the result: `sum_ = x * 2`\nand where that is read;\n"
        "then type del sum, for until then it stays what it is now",
    )


def test_a_function_of_an_earlier_cell_that_is_probed(run):
    error, _ = run(*CELLS, "def f(x):\n    return grad(x * 2, x)", "bp.probe(f)(x)")
    assert "  rebound: In[3]:1: for name, grad in " in error.__notes__[-1]


def test_a_cell_that_was_run_again(run):
    error, _ = run(*CELLS, CELLS[1], CELLS[2], "%%probe a\na = x * 3\nslopes = grad(a, x)")
    assert "  defined: In[4]:1: from" in error.__notes__[-1] and "  rebound: In[5]:1: for" in error.__notes__[-1]


def test_the_way_out_of_a_notebook(run):
    error, _ = run(*CELLS, CELLS[1], "%%probe a\na = x * 3\nslopes = grad(a, x, retain_graph=True)")
    assert error is None


def test_a_notebook_whose_name_was_bound_once(run):
    error, _ = run(*CELLS[:2], "%%probe a\nb = x * 2\na = b(x)")
    assert [note for note in error.__notes__ if not note.startswith(HEAD)] == []
