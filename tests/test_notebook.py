"""The cell magic, in a real IPython shell: a probed cell does what the cell does, and shows its gradients."""

import gc
import json
import linecache
import subprocess
import sys
import textwrap
import weakref

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import backprobe as bp
from circuit_pages import recorded

TOY = """\
x = torch.tensor(3.0, requires_grad=True)
w = torch.tensor(2.0, requires_grad=True)
b = torch.tensor(1.0, requires_grad=True)
u = x * w
v = u + b
a = F.relu(v)
"""
IMPORTS = "import torch, torch.nn as nn, torch.nn.functional as F\nimport backprobe as bp\n"


class Ran:
    """What running one cell gave: the result that IPython shows, its error, what it printed and what it displayed."""

    def __init__(self, result, shown):
        self.value, self.error = result.result, result.error_before_exec or result.error_in_exec
        self.out, self.err = shown.stdout, shown.stderr
        self.displayed = [output.data for output in shown.outputs]

    @property
    def table(self):
        return self.displayed[0]["text/plain"]


class Notebook:
    def __init__(self, shell):
        self.shell, self.names = shell, shell.user_ns

    def run(self, text):
        with capture_output() as shown:
            result = self.shell.run_cell(text, store_history=True)
        return Ran(result, shown)

    def probe(self, text, line="rec"):
        """Run a probed cell that must succeed; its recording."""
        ran = self.run(f"%%probe {line}\n{textwrap.dedent(text)}")
        assert ran.error is None, ran.out + ran.err
        return self.names["rec"]

    def refused(self, text, line=""):
        """The message of the error with which a probed cell is refused, as it is shown."""
        ran = self.run(f"%%probe {line}\n{text}")
        assert ran.error is not None
        return (ran.out + ran.err).strip()

    def reset(self):
        self.shell.reset()
        self.run(IMPORTS)


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.delattr("builtins._", raising=False)  # doctest leaves one, and IPython then sets none
    main = sys.modules["__main__"]
    hooks = sys.excepthook, sys.displayhook
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(
        config=Config(HistoryManager={"enabled": False}, InteractiveShell={"colors": "nocolor"})
    )
    bp.load_ipython_extension(made)
    yield made
    InteractiveShell.clear_instance()
    made.restore_sys_module_state()
    sys.modules["__main__"] = main
    sys.excepthook, sys.displayhook = hooks


@pytest.fixture
def book(shell):
    made = Notebook(shell)
    made.run(IMPORTS)
    return made


@pytest.fixture
def toys(book):
    """A notebook in which the toy cell has run."""
    book.run(TOY)
    return book


def grads(rec):
    return {name: grad.item() for name, grad in rec.grads().items()}


# the seed's cell


def test_the_toy_cell_shows_table_and_circuit(book):
    ran = book.run("%%probe a\n" + TOY)
    assert ran.error is None and ran.value is None
    assert len(ran.displayed) == 2
    assert "gradients are of a" in ran.table and "u = x * w" in ran.table
    assert "<table>" in ran.displayed[0]["text/html"]
    assert ran.displayed[1]["text/plain"] == "<backprobe.Drawing of 6 nodes and 5 edges>"
    assert "<svg" in ran.displayed[1]["image/svg+xml"]
    assert book.names["a"].item() == 7.0


def test_gradients_partials_and_sources_of_the_toy_cell(book):
    rec = book.probe(TOY, "a rec")
    assert grads(rec) == {"x": 2.0, "w": 3.0, "b": 1.0, "u": 1.0, "v": 1.0, "a": 1.0}
    assert {name: p.item() for name, p in rec["u"].partials.items()} == {"x": 2.0, "w": 3.0}
    assert [(rec[name].source.line, rec[name].source.text) for name in "xua"] == [
        (1, "x = torch.tensor(3.0, requires_grad=True)"),
        (4, "u = x * w"),
        (6, "a = F.relu(v)"),
    ]
    file = rec["u"].source.file
    assert {rec[name].source.file for name in rec} == {file}
    assert linecache.getline(file, 4) == "u = x * w\n"
    assert rec["u"].source.expression == "x * w"


def test_places_are_cells_by_their_numbers(book):
    book.run("1 + 1")
    rec = book.probe("x = torch.tensor(3.0, requires_grad=True)\nd = x.detach()\na = x * d\n", "a rec")
    at = f"In[{book.shell.execution_count - 1}]:2"
    (finding,) = bp.explain(rec, "d").findings
    assert str(rec["d"].source) == f"{at}: d = x.detach()" and repr(rec["d"].source) == f"<Source {at}: d = x.detach()>"
    drawn = json.dumps(recorded(bp.draw(rec).page))
    for shown in (str(finding), repr(finding), finding._repr_html_(), str(rec), str(rec["d"]), drawn):
        assert at in shown and rec["d"].source.file not in shown


def test_a_cell_run_twice_gives_the_same_recording(book):
    first, second = book.probe(TOY, "a rec"), book.probe(TOY, "a rec")
    assert first is not second and list(first) == list(second) == ["x", "w", "b", "u", "v", "a"]
    assert grads(first) == grads(second)


def test_inputs_are_the_tensors_that_the_cell_reads_before_it_assigns_them(book):
    book.run(TOY + "unread = x * 1\nnumber, pair = 3, (x * 2, w * 3)\n")
    rec = book.probe("y = x * number + pair[1]\nx = y * w\n", "x rec")
    assert list(rec) == ["x#0", "pair.0", "pair.1", "y", "w", "x#1"]  # each where it is read first
    assert rec["x#0"].grad.item() == 6.0 and rec["pair.1"].grad.item() == 2.0
    assert rec["x#0"].source is None and rec["y"].source.line == 1


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("for i in range(2):\n    h = h * w\n", ["h#0", "w", "h#1", "h#2"]),
        ("for i in range(2):\n    h = w * i\n    k = h * w\n", ["w", "h#0", "k#0", "h#1", "k#1"]),
        ("if False:\n    h = w * 2\nk = h * w\n", ["h", "w", "k"]),
        ("if True:\n    h = w * 2\nk = h * w\n", ["w", "h", "k"]),
        ("k = sum([h for h in [w, w]])\n", ["w", "k"]),
        ("k = sum([w for h in h])\n", None),
        ("k = (h := w * 2) * h\n", ["w", "h", "k"]),
        ("h += w\nk = h * 1\n", ["h#0", "w", "h#1", "k"]),
        ("def h(z=w):\n    return z * 2\nk = h()\n", ["w", "k"]),
        ("import math as h\nk = w * h.e\n", ["w", "k"]),
        ("while h < 50:\n    h = h * w\nk = h * 1\n", ["h#0", "w", "h#1", "h#2", "h#3", "k"]),
    ],
)
def test_an_old_value_is_an_input_only_where_the_cell_reads_it(book, cell, names):
    """The names that a first run leaves behind do not turn up in the recording of a second."""
    book.run("w = torch.tensor(2.0, requires_grad=True)\nh = torch.tensor(9.0, requires_grad=True) * 1\n")
    if names is None:
        book.run("h = [1, 2]")
        names = ["w", "k"]
    rec = book.probe(cell)
    assert [name for name in rec if rec[name].status != "not_tensor"] == names


def test_nothing_is_lifted(book):
    rec = book.probe("x = torch.tensor(3.0)\nw = torch.tensor(2.0, requires_grad=True)\nu = x * w\n")
    assert rec["x"].status == "frozen" and rec["w"].grad.item() == 3.0
    assert not book.names["x"].requires_grad and book.names["w"].grad is None


# every name as in an unprobed cell

PROGRAMS = {
    "targets": """
        import types
        box = types.SimpleNamespace()
        table = {}
        (p, q), *rest = (w, w * 2), x, w * 3, 5
        first = second = x * w
        box.u = first * 2
        table["k"], table[0] = box.u, rest[0]
        second += box.u
        table["k"] *= 2
        box.u -= 1
        z = torch.zeros(3)
        z[0] = w
        z[1:] += x
        for i, (l, r) in enumerate([(x, w), (w, x)]):
            first = first + l * r
        with torch.no_grad() as nothing, open("/dev/null") as file:
            frozen = x * 2
        squares = [t * t for t in (x, w) if t > 0]
        by_name = {name: value * 2 for name, value in [("x", x), ("w", w)]}
        if (walrus := x * 3) > 0:
            walrus = walrus * w
        typed: torch.Tensor = x * 4
        box.typed: "never evaluated as a name" = w * 4
        declared: int
        match (x, w):
            case (one, two):
                matched = one * two
        try:
            1 / 0
        except ZeroDivisionError as error:
            caught = x * 5
        else:
            missed = 1
        finally:
            last = x * 6
        del l, r
        loss = first + second + walrus + last + z.sum() + matched
        """,
    "functions and classes": """
        def scale(t, by=2.0):
            "doc"
            global counted
            counted = 1
            return t * by * x

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.tensor(1.5))
            def forward(self, t):
                return self.inner(t) * self.weight
            def inner(self, t):
                return t + 1

        @torch.no_grad()
        def decorated(t):
            return t * 2

        make = lambda t: t * w
        loss = Layer()(scale(w)) + make(x) + decorated(x)
        names = [scale.__module__, scale.__qualname__, Layer.__qualname__, make.__qualname__, scale.__code__.co_name]
        same = [scale.__globals__ is globals(), Layer.inner.__globals__ is globals(), scale.__doc__]
        """,
    "the namespace": """
        from math import *
        import os.path as path
        global g
        g = x * 2
        before = sorted(n for n in dir() if n.startswith("@"))
        assert locals() is globals()
        locals()["put"] = 1
        exec("executed = x * 2")
        evaluated = eval("x * executed")
        vars()["more"] = 2
        main = __name__ == "__main__"
        if __name__ == "__main__":
            chosen = x * pi
        inside = [n for n in globals() if n.startswith("@")]
        pairs = [(k, v) for k, v in list(globals().items()) if k == "x"]
        loss = chosen * evaluated
        """,
    "annotations": """
        early: float = x * 2
        made = []
        def box():
            made.append(1)
            return type("Box", (), {})()
        box().typed: print("evaluated once") = x * 3
        (bare): print("evaluated, not kept") = x * 3
        __annotations__["early"]
        """,
    "future": """
        from __future__ import annotations
        def annotated(t: undefined_name) -> also_undefined:
            return t * 2
        held: not_there = annotated(x)
        kinds = annotated.__annotations__, __annotations__["held"]
        held * 1
        """,
    "rebinding what we use": """
        print = lambda *a: None
        display = backprobe = bp = torch_ = probe = rec2 = recording = None
        list = dict = len = str = sorted = range
        loss = x * w
        """,
    "last expression": """
        y = x * w
        print("printed")
        y * 2
        """,
    "last expression is None": """
        y = x * w
        print(y.item())
        """,
    "silenced": """
        y = x * w
        y;
        """,
    "text": """
        y = x * w
        "the text"
        """,
    "magics": """
        %precision 3
        here = %pwd
        words = !echo one two
        %time timed = x * 2
        y = x * w
        """,
    "a generator consumed later": """
        later = (f * x for f in (x, w))
        y = x * w
        """,
    "mutation while iterating": """
        for key in list(globals()):
            if key == "x":
                m, n = globals()[key], 1
        y = m * w
        """,
    "deleted": """
        y = x * w
        k = y * 2
        del y
        """,
}


def comparable(value):
    """A value of a namespace as something that can be compared between two runs."""
    if isinstance(value, torch.Tensor):
        return "tensor", value.tolist(), value.requires_grad, value.is_leaf
    if isinstance(value, list | tuple):
        return type(value).__name__, [comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    return repr(value) if isinstance(value, str | int | float | type(None)) else type(value).__name__


def left(book, text):
    """Everything that a cell leaves: its names with their values, what it prints, and what it returns."""
    book.reset()
    book.run("x = torch.tensor(3.0, requires_grad=True)\nw = torch.tensor(2.0, requires_grad=True)")
    torch.manual_seed(0)
    ran = book.run(text)
    assert ran.error is None, ran.out + ran.err
    hidden = {"In", "Out", "_", "__", "___", "_i", "_ii", "_iii", "_ih", "_oh", "_dh", "rec"}
    names = {n: comparable(v) for n, v in book.names.items() if n not in hidden and n.strip("_i").isdigit() is False}
    out = [line for line in ran.out.splitlines() if "time" not in line and not line.startswith("Out[")]
    return names, comparable(ran.value), out, comparable(book.names.get("_")), torch.rand(1).item()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_probed_cell_leaves_what_the_cell_leaves(book, program):
    text = textwrap.dedent(PROGRAMS[program]).lstrip()
    plain, probed = left(book, text), left(book, "%%probe rec\n" + text)
    assert isinstance(book.names["rec"], bp.Recording)
    assert plain == probed
    assert not [name for name in book.names if name.startswith("@")]


def test_every_target_has_its_name(toys):
    rec = toys.probe(PROGRAMS["targets"], "loss rec")
    names = {alias for entry in rec.values() for alias in (entry.name, *entry.aliases)}
    expected = """p q rest.0 first#0 second#0 second#1 box.u#0 box.u#1 table['k']#0 table['k']#1 table[0] z#1 l#0 r#1
        frozen squares.1 by_name.x t#0 walrus#1 typed box.typed one matched caught last loss""".split()
    assert [name for name in expected if name not in names] == []


def test_a_generator_made_in_the_cell_works_afterwards(toys):
    toys.probe(PROGRAMS["a generator consumed later"])
    assert [t.item() for t in toys.names["later"]] == [9.0, 6.0]


def test_what_the_cell_computed_can_be_differentiated_afterwards(book):
    book.probe(TOY, "a rec")
    rec = book.probe("c = a * u\n", "c rec")
    assert grads(rec) == {"a": 6.0, "u": 13.0, "c": 1.0}
    book.names["c"].backward()
    assert book.names["x"].grad.item() == 26.0


# functions and models


def test_functions_of_the_cell_are_followed(book):
    text = "def double(t):\n    z = t * 2\n    return z + 1\ny = double(double(x))\n"
    book.run(TOY)
    rec = book.probe(text, "y rec")
    assert rec["/double#0:z"].grad.item() == 2.0 and rec["/double#1:z"].grad.item() == 1.0
    assert rec["/double#0:z"].source.line == 2
    assert book.names["double"](book.names["x"]).item() == 7.0


def test_functions_of_earlier_cells_are_followed(book):
    book.run("def double(t):\n    z = t * 2\n    return z + 1\n")
    assert book.probe(TOY + "y = double(a)\n", "y rec")["/double:z"].value.item() == 14.0


def test_a_cell_that_uses_a_model(book):
    text = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(2, 1)
            def forward(self, t):
                hidden = self.linear(t)
                return hidden.tanh()
        net = Net()
        loss = net(torch.ones(1, 2)).sum()
        """
    rec = book.probe(text, "loss rec")
    assert rec["/Net:hidden"].shape == (1, 1) and rec["/Net:hidden"].status == "ok"
    assert book.names["net"].linear.weight.grad is None
    assert not book.names["net"]._forward_hooks


def test_a_magic_line_that_assigns_makes_an_entry(toys):
    rec = toys.probe("words = !echo one\ny = x * len(words)\n")
    assert rec["y"].grad.item() == 1.0 and list(rec) == ["x", "y"]


# what is differentiated


@pytest.mark.parametrize(
    ("cell", "line", "output", "value"),
    [
        ("u = x * w\nv = u * 2\n", "rec", "v", 12.0),
        ("u = x * w\nv = u * 2\n", "u rec", "u", 6.0),
        ("u = x * w\nv = u * 2\n", "rec u", "u", 6.0),
        ("u = x * w\nn = 3\nk = torch.tensor(1.0)\n", "rec", "u", 6.0),
        ("u = x * w\nu * 3\n", "rec", "return", 18.0),
        ("u = x * w\nv = u * 2\nu\n", "rec", "u", 6.0),
        ("u = x * w\nv = u * 2\nu\n", "v rec", "v", 12.0),
        ("u = x * w\nu.item()\n", "rec", "u", 6.0),
        ("for i in range(3):\n    u = x * i\n", "u rec", "u#2", 6.0),
        ("u = x * w\nu += x\n", "u rec", "u#1", 9.0),
        ("u = x * w\nu.mul_(2)\nv = u * 1\n", "u rec", "u#1", 12.0),
        ("u = x * w\nu = u\nv = u\n", "v rec", "u", 6.0),
        ("if (u := x * w) > 0:\n    pass\n", "u rec", "u", 6.0),
        ("u = x * w\nv = u * 2\n", "u rec --select v", "u", 6.0),
        ("u = x * w\nv = u * 2\nv * 2\n", "rec --select u", "return", 24.0),
        ("u = x * torch.ones(2)\n", "u rec --cotangent torch.tensor([1.0,2.0])", "u", [3.0, 3.0]),
        ("u = x * torch.ones(2)\n", 'u rec --cotangent "torch.ones_like(u) * 2"', "u", [3.0, 3.0]),
    ],
)
def test_what_is_differentiated(toys, cell, line, output, value):
    rec = toys.probe(cell, line)
    (entry,) = rec.outputs
    assert entry.name == output
    assert entry.value.tolist() == value
    assert entry.grad is not None


@pytest.mark.parametrize("line", ["u rec", "rec"])
def test_a_value_that_an_earlier_cell_left_is_not_the_output(toys, line):
    """Or a run of this cell that takes another branch would show the gradients of the last one."""
    toys.refused("if x < 0:\n    u = x * 5\nn = 3\n", line)
    assert "rec" not in toys.names


def test_the_last_one_assigned_is_told_by_the_run_and_not_by_the_text(toys):
    rec = toys.probe("for i in range(2):\n    if i:\n        p = x * w\n    else:\n        q = x * 3\n")
    assert [entry.name for entry in rec.outputs] == ["p"]
    rec = toys.probe("p = x * 2\nq = p * 3\ndel q\n")
    assert [entry.name for entry in rec.outputs] == ["p"]


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("v = x * 2\nu = v * 3\n", "u"),
        ("v = u = x * 6\n", "v"),
        ("v = x * 2\nfor i in range(2):\n    u = v * i * 3\n", "u#1"),
        ("v = x * 3\nif (u := v * 2) > 0:\n    pass\n", "u"),
    ],
)
def test_an_output_that_is_not_selected_has_its_own_name_and_line(toys, cell, name):
    rec = toys.probe(cell, "u rec --select v")
    (entry,) = rec.outputs
    assert entry.name == name and "return" not in entry.aliases
    assert rec[name] is entry
    assert entry.source is not None and ("u =" in entry.source.text or "u :=" in entry.source.text)
    assert rec["v"].grad is not None and list(rec) == list(dict.fromkeys(["v", name]))


def test_a_last_expression_without_a_tensor_has_no_entry(toys):
    assert list(toys.probe("u = x * w\nu.item()\n")) == ["x", "w", "u"]
    assert list(toys.probe("u = x * w\n[u, 3]\n")) == ["x", "w", "u", "return.1"]


def test_cotangent_is_evaluated_when_the_cell_has_run(toys):
    rec = toys.probe("u = x * torch.ones(2)\nscale = 5\n", 'u rec --cotangent "torch.ones_like(u) * scale"')
    assert rec["x"].grad.item() == 10.0


def test_select_is_repeatable_and_its_text_is_a_pattern(book):
    rec = book.probe(TOY, r"""a rec --select u --select "re::[xw\d]" """)
    assert list(rec) == ["x", "w", "u", "a"]


def test_no_partials(book):
    rec = book.probe(TOY, "a rec --no-partials")
    assert rec.path_sums is None and rec["x"].grad.item() == 2.0
    with pytest.raises(bp.BadOption, match="a recording without partials"):
        _ = rec["u"].partials


def test_values_copy(book):
    text = (
        "x = torch.tensor(3.0, requires_grad=True)\nu = x * 2\nalias = u.detach().numpy()\nalias[...] = 0\nv = u * 1\n"
    )
    assert book.probe(text, "v rec --values copy")["u"].value.item() == 6.0


def test_the_last_expression_is_the_value_of_the_cell(book):
    ran = book.run("%%probe a rec\n" + TOY + "a * 2\n")
    assert ran.value.item() == 14.0 and book.names["_"] is ran.value is book.names["rec"].result
    assert book.names["Out"][2] is ran.value
    assert book.run("%%probe a\n" + TOY + "a * 2;\n").value is None


def test_a_probe_inside_a_probed_cell(book):
    rec = book.probe(
        TOY + "inner = bp.probe(lambda t: t * 3)(2.0)\nget_ipython().run_cell_magic('probe', 'k', 'k = x * 5')\n",
        "a rec",
    )
    assert rec["x"].grad.item() == 2.0 and book.names["inner"]["t"].grad.item() == 3.0


# nothing is left behind


@pytest.mark.parametrize("ending", ["a * 1", "1 / 0", "raise KeyboardInterrupt", "a.backward()"])
def test_nothing_is_left_behind(book, ending):
    book.run("%%probe a\n" + TOY + "(p, q), box = (x * 2, w * 3), {}\nbox['k'] = p\n" + ending)
    assert not [name for name in book.names if name.startswith("@")]
    held = [weakref.ref(book.names[name]) for name in "xuvapq"]
    assert all(not book.names[name]._backward_hooks for name in "xuva")
    book.run("%reset -f")
    book.shell.user_ns_hidden.clear()
    for name in ("last_value", "last_traceback", "last_exc", "last_type"):
        if hasattr(sys, name):
            delattr(sys, name)
    book.shell.last_execution_result = book.shell.displayhook._ = None
    book.shell.InteractiveTB.tb = None
    gc.collect()
    assert [ref() for ref in held] == [None] * 6


def test_temporaries_are_given_up_at_once_after_an_error(book):
    """The last traceback keeps the frames of the cell, and through them nothing of ours that holds a tensor."""
    ran = book.run(
        "%%probe\nclass Bad:\n    @property\n    def u(self): return 1\n    __slots__ = ()\n"
        "big = torch.ones(5)\nBad().u, other = big * 2, 1\n"
    )
    assert isinstance(ran.error, AttributeError)
    plain = [t for t in gc.get_objects() if type(t) is torch.Tensor and t.shape == (5,) and t.dtype is torch.float32]
    alive = [t for t in plain if t.device.type == "cpu" and t.layout is torch.strided and t.tolist() == [2.0] * 5]
    assert alive == []


def test_an_input_that_was_never_read_is_given_up_after_an_error(book):
    book.run("big = torch.ones(5)")
    book.run("%%probe\nif False:\n    y = big * 2\n1 / 0\n")
    gone = weakref.ref(book.names["big"])
    book.run("del big")
    assert gone() is None


# errors of the cell


def test_an_error_of_the_cell_is_shown_at_its_own_line(book):
    ran = book.run("%%probe a\n" + TOY + "def fails(t):\n    return t.no_such\nq = fails(a)\n")
    assert isinstance(ran.error, AttributeError)
    assert "Cell In[2], line 9" in ran.out and "----> 9 q = fails(a)" in ran.out
    assert "Cell In[2], line 8, in fails(t)" in ran.out and "----> 8     return t.no_such" in ran.out
    assert "source/" not in ran.out and "probe.py" not in ran.out
    assert "backprobe: raised while running the cell under a probe; the last name bound was 't'" in ran.out
    assert book.names["a"].item() == 7.0 and "q" not in book.names


def test_an_error_in_every_kind_of_statement_has_its_line(book):
    for at, line in enumerate(
        ["x.y.z = 1", "p, q = 1", "x[1, 2] += x", "[t.no for t in (x,)]", "assert x.no", "del zz"]
    ):
        ran = book.run(f"%%probe\nx = torch.tensor(1.0, requires_grad=True)\ny = x\n\n{line}\n")
        assert ran.error is not None and f"----> 4 {line}" in ran.out, ran.out


def test_keyboard_interrupt_comes_out(book):
    ran = book.run("%%probe a rec\n" + TOY + "raise KeyboardInterrupt\n")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert book.names["a"].item() == 7.0 and "rec" not in book.names and ran.displayed == []


def test_a_syntax_error_is_shown_as_ipython_shows_it(book):
    for bad, place in (("y = x +", "y = x +\n           ^"), ("return 3", "return 3\n    ^")):
        ran = book.run(f"%%probe\nx = 1\n{bad}\n")
        assert isinstance(ran.error, SyntaxError) and ran.error.lineno == 2
        assert place in ran.out and "ast_parse" not in ran.out and "backprobe:" not in ran.out
        assert "x" not in book.names


def test_a_cell_that_has_run_backward_itself(book):
    for retaining in ("", "retain_graph=True"):
        rec = book.probe(TOY + f"a.backward({retaining})\n", "a rec")
        assert grads(rec) == {"x": 2.0, "w": 3.0, "b": 1.0, "u": 1.0, "v": 1.0, "a": 1.0}
        assert book.names["x"].grad.item() == 2.0
        assert rec["u"].partials == {"x": 2.0, "w": 3.0} and rec.path_sums.agree


# errors of ours


def test_an_error_of_ours_is_its_message_alone(book):
    assert book.refused(TOY, "a u") == (
        "BadOption: the cell assigns both 'a' and 'u'\n"
        "  asked: %%probe a u\n"
        "  why:   only one output can be differentiated\n"
        "  next:  %%probe a"
    )


@pytest.mark.parametrize(
    ("cell", "line", "parts"),
    [
        ("# nothing\n", "", ["NothingToDifferentiate: the cell has no code"]),
        ("\n\n", "", ["the cell has no code"]),
        ("loss = x * 2\n", "lss", ["the cell does not assign 'lss'", "similar to 'loss'", "next:  %%probe loss"]),
        ("loss = x * 2\n", "lsos", ["the cell does not assign 'lsos'", "next:  %%probe loss"]),
        (
            "def f(t): return t\nu = f(x)\n",
            "f",
            ["'f' is not a floating-point tensor", "found: function", "next:  %%probe u"],
        ),
        ("loss = x * 2\n", "loss.grad", ["'loss.grad' is not a name"]),
        ("loss = x * 2\n", "x", ["the cell does not assign 'x'", "'x' is a Tensor already", "next:  %%probe loss"]),
        ("loss = x * 2\n", "print", ["the cell does not assign 'print'"]),
        ("loss = x * 2\n", "one two", ["the cell does not assign 'two'", "'one' receives the recording"]),
        (
            "u = x * torch.ones(3)\n",
            "u",
            [
                "the output is not a scalar",
                "asked: %%probe u",
                "shape (3,)",
                'next:  --cotangent "torch.ones(3)", or a last line',
            ],
        ),
        ("u = x * 2\n", "u --cotangent torch.ones(3)", ["shape differs from the output", '"torch.ones(())"']),
        ("u = x * 2\n", "u --cotangent 3+", ["the cotangent is not an expression", "--cotangent 3+"]),
        ("u = x * 2\n", "u --cotangent nowhere", ["NameError", "evaluating the cotangent of the cell"]),
        ("u = x * 1j\n", "u", ["the output is complex", "next:  --cotangent"]),
        ("n, u = 3, x * 2\n", "n", ["'n' is not a floating-point tensor", "found: int", "next:  %%probe u"]),
        ("n = torch.tensor(3)\n", "n", ["found: a tensor of int64", "next:  a cell that assigns"]),
        ("u = x * 2\ndel u\n", "u", ["the cell does not assign 'u'", "deleted"]),
        ("if x < 0:\n    new = x\nv = x * 2\n", "new", ["the cell does not assign 'new'", "next:  %%probe v"]),
        ("u = x.detach()\n", "u", ["does not depend on any differentiated value", "u without history"]),
        ("u = torch.ones(1)\nn = 3\n", "", ["computes nothing that can be differentiated", "floating tensors: u"]),
        ("n = 3\n", "", ["found: no floating tensor"]),
        ("u = x * 2\n", "u --select vv", ["the pattern 'vv' matches nothing in the cell", "%%probe u --select 'vv'"]),
        ("uu = x * 2\n", "--select uuu", ["next:  %%probe --select 'uu'"]),
        ("u = x * 2\n", "--slect u", ["UsageError: unrecognized arguments: --slect"]),
        ("u = x * 2\n", "--values all", ["UsageError: argument --values: invalid choice"]),
        ("u = x * 2\n", "--select 'u", ["UsageError: No closing quotation"]),
        ("u = x * 2\n", "--backend jux", ["NoBackend: there is no backend 'jux'"]),
        ("u = await x\n", "", ["Unsupported: a cell with await at its top level", "line 1: u = await x"]),
        ("u = [t async for t in x]\n", "", ["Unsupported: a cell with await"]),
        ("u = x\nyield u\n", "", ["Unsupported: the cell has a yield outside any function", "line 2: yield u"]),
        ("%%time\nu = x\n", "", ["inside %%time", "next:  %%time on the first line, and %%probe below it"]),
        ("exec('fresh = x * 2')\nu = x * 2\n", "fresh", ["the cell has assigned 'fresh' itself", "fresh = fresh"]),
    ],
)
def test_bad_input(toys, cell, line, parts):
    text = toys.refused(cell, line)
    assert [part for part in parts if part not in text] == [], text
    assert "Traceback" not in text or "NameError" in text


def test_a_function_with_await_or_yield_is_no_matter(toys):
    rec = toys.probe("async def later(t):\n    await t\ndef each():\n    yield x\nu = sum(each())\n")
    assert rec["u"].grad.item() == 1.0


def test_a_refused_cell_has_not_run(toys):
    toys.refused("ran = 1\nu = x * 2\n", "one two")
    toys.refused("ran = 1\nu = x * 2\n", "u --cotangent 3+")
    assert "ran" not in toys.names


def test_an_expression_nested_too_deeply_is_refused_before_the_cell_runs(toys):
    text = toys.refused("ran = 1\ny = " + " + ".join(["x"] * 900) + "\n")
    assert text.startswith("NoSource: an expression in the cell is nested too deeply") and "ran" not in toys.names


def test_a_recording_that_cannot_be_drawn_is_made_all_the_same(book, monkeypatch):
    def too_large(recording):
        raise bp.BadOption("too many to draw")

    monkeypatch.setattr(sys.modules["backprobe.draw"], "draw", too_large)
    ran = book.run("%%probe a rec\n" + TOY + "a\n")
    assert ran.error is None and ran.value.item() == 7.0 and "rec" in book.names
    assert ran.displayed[1]["text/plain"] == "too many to draw"


# the extension


def test_load_ext_and_unload_ext(shell):
    book = Notebook(shell)
    assert "probe" in shell.magics_manager.magics["cell"]
    bp.unload_ipython_extension(shell)
    assert "not found" in book.run("%%probe\nx = 1").err
    bp.load_ipython_extension(shell)
    assert "A NAME that the cell assigns" in shell.find_cell_magic("probe").__doc__


def test_percent_signs_and_braces_of_the_line_are_not_expanded(toys):
    rec = toys.probe("u = x * torch.ones(2)\n", "u rec --cotangent \"[{'k': 1.0}['k'], 2.0]\"")
    assert rec["x"].grad.item() == 3.0


FRESH = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
shell.run_cell("%load_ext backprobe")
assert "torch" not in sys.modules
print(shell.run_cell("%%probe\\nn = 1\\n").error_in_exec)
assert "torch" not in sys.modules
shell.run_cell("%%probe y rec\\nimport torch\\nx = torch.tensor(2.0, requires_grad=True)\\ny = x * x\\n")
print(shell.user_ns["rec"]["x"].grad.item())
"""


def test_in_a_fresh_process_before_any_framework_is_imported():
    ran = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "next:  import torch in the cell or before it" in ran.stdout
    assert "4.0" in ran.stdout.splitlines()


def test_importing_backprobe_imports_no_ipython():
    program = "import backprobe, backprobe.notebook, sys; assert 'IPython' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize("option", ["", "--no-partials"])
def test_a_later_cell_may_run_backward_through_what_the_cell_computed(book, option):
    book.probe("x = torch.tensor(3.0, requires_grad=True)\na = x * x\n", f"a rec {option}")
    assert book.run("a.backward()").error is None
    assert book.names["x"].grad.item() == 6


@pytest.mark.parametrize("rebinds", ["setup()", "exec('y = x * 2')", "globals()['y'] = x * 2"])
def test_an_older_value_of_a_name_that_is_bound_out_of_sight_is_no_input(book, rebinds):
    book.run("x = torch.tensor(3.0, requires_grad=True); y = torch.tensor(10.0)")
    book.run("def setup():\n    global y\n    y = x * 2")
    rec = book.probe(f"{rebinds}\nz = y * 3\n", "z rec")
    assert rec["z"].value.item() == 18
    assert all(entry.value.item() != 10 for entry in rec.values())
