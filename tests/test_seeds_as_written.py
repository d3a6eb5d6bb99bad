"""The notebooks that everything began with, as they are written: as block, cell, script, and in a kernel."""

import importlib.util
import io
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial

import pytest

import backprobe as bp
from commands import invoked, printed
from drawn import Drawn
from notebook_cells import executed
from passes.forms import left, run
from passes.forms import with_block as blocked
from passes.tables import table
from seeds import cells, imports, joined, line_of
from test_notebook import Notebook, shell  # noqa: F401  a fixture


@dataclass(frozen=True)
class Graph:
    """What a seed says of its graph: each value and its gradient, the edges, and the derivative that it derives."""

    numbers: dict[str, tuple[float, float]]
    edges: dict[tuple[str, str], float]
    derived: tuple[str, str, int]

    @property
    def grads(self):
        return {name: gradient for name, (_, gradient) in self.numbers.items()}


TOY = Graph(
    {"x": (3, 2), "w": (2, 3), "b": (1, 1), "u": (6, 1), "v": (7, 1), "a": (7, 1)},
    {("x", "u"): 2, ("w", "u"): 3, ("u", "v"): 1, ("b", "v"): 1, ("v", "a"): 1},
    ("x", "∂a/∂x", 2),
)
SQUARE = Graph({"x": (1, 12), "z": (2, 6), "y": (10, 1)}, {("x", "z"): 2, ("z", "y"): 6}, ("x", "∂y/∂x", 12))
AFTER_X = (10, 11, 12, 13, 14)  # the third seed makes its x in two ways
WRITTEN = {
    "a call for each": (TOY, partial(joined, 0, 3)),
    "one call for all": (TOY, partial(joined, 0, 4)),
    "retain_grad": (TOY, partial(joined, 0, 5)),
    "hooks": (TOY, partial(joined, 0, 6)),
    "a call for each, with gaps": (TOY, partial(joined, 1, 2)),
    "retain_grad, with gaps": (TOY, lambda: imports(1, 2) + joined(1, 4)),
    "hooks, with gaps": (TOY, partial(joined, 1, 5)),
    "hooks in functions": (SQUARE, partial(joined, 2, 8, *AFTER_X)),
    "hooks in functions, requires_grad_": (SQUARE, lambda: imports(2, 8) + joined(2, 9, *AFTER_X)),
}
as_written = pytest.mark.parametrize(("graph", "text"), WRITTEN.values(), ids=WRITTEN)


def bare(text, folder):
    """What a program prints, and all that it leaves."""
    with redirect_stdout(io.StringIO()) as out:
        names = run(text, folder / "bare.py")
    return out.getvalue(), names


def numbers(names):
    return {name: number for name, number in left(names).items() if name != "randomness"}


@pytest.fixture(params=["block", "cell"])
def probed(request, tmp_path, shell):  # noqa: F811
    """Run a program as a block or as a cell: what it prints, all that it leaves, and the recording."""

    def block(text):
        with redirect_stdout(io.StringIO()) as out:
            names = run(blocked(text).replace("bp.probe()", "bp.probe(partials=True)"), tmp_path / "block.py")
        return out.getvalue(), names, names["rec"]

    def cell(text):
        book = Notebook(shell)
        ran = book.run(f"%%probe rec\n{text}")
        assert ran.error is None
        return ran.out, book.names, book.names["rec"]

    return {"block": block, "cell": cell}[request.param]


@as_written
def test_the_numbers(graph, text, probed):
    rec = probed(text())[2]
    assert rec.output_keys == ()
    assert {name: (rec[name].value.item(), rec[name].grad.item()) for name in graph.numbers} == graph.numbers
    assert {name: gradient.item() for name, gradient in rec.grads().items()} == graph.grads


@as_written
def test_the_program_prints_and_leaves_what_it_does_without_a_probe(graph, text, probed, tmp_path):
    alone, expected = bare(text(), tmp_path)
    out, names, _ = probed(text())
    assert out.startswith(alone)
    assert numbers({name: names[name] for name in expected if name != "__builtins__"}) == numbers(expected)


@as_written
def test_the_picture(graph, text, probed):
    pictured(Drawn(bp.draw(probed(text())[2]).svg), graph)


@as_written
def test_the_derivation(graph, text, probed):
    name, symbol, number = graph.derived
    derivation = bp.derive(probed(text())[2], name)
    assert derivation.value == number
    assert str(derivation).startswith(f"{symbol} = ")
    assert derivation.agrees


def pictured(drawn, graph):
    """Every value with its number and its gradient, and on every edge the local partial."""
    of = list(graph.numbers)[-1]
    assert {name: drawn.nodes[name][-2:] for name in graph.numbers} == {
        name: [f"= [{value}]", f"∂{of}/∂{name} = [{gradient}]"] for name, (value, gradient) in graph.numbers.items()
    }
    assert {ends: drawn.edges[ends] for ends in graph.edges} == {ends: f"[{by}]" for ends, by in graph.edges.items()}


@pytest.mark.parametrize("which", [name for name in WRITTEN if "functions" in name])
def test_the_order_of_the_hooks(which, probed):
    out, names, rec = probed(WRITTEN[which][1]())
    assert rec.backward_order() == ["y", "z", "x"]
    assert [gradient.item() for gradient in names["grads"]] == [1, 6, 12]
    assert out == "[tensor([1.]), tensor([6.]), tensor([12.])]\n"


def test_an_x_that_is_made_twice(probed):
    rec = probed(joined(2, 8, 9, *AFTER_X))[2]
    assert rec.backward_order() == ["y", "z", "x#1"]
    assert [rec[name].grad.item() for name in ("y", "z", "x#1")] == [1, 6, 12]
    assert rec["x#0"].grad_or_none is None


def test_only_the_cell_that_runs_backward_is_probed(shell):  # noqa: F811
    book = Notebook(shell)
    for number in (8, 9, 10, 11, 12):
        assert book.run(cells(2)[number]).error is None
    assert book.probe(cells(2)[13])["y"].grad.item() == 1
    assert book.run(cells(2)[14]).out == "[tensor([1.]), tensor([6.]), tensor([12.])]\n"


# on the command line


@pytest.fixture
def script(tmp_path):
    """Write a script and give it to a command: its exit status, output and errors."""

    def command(verb, text, *words):
        (tmp_path / "seed.py").write_text(text)
        return invoked(verb, str(tmp_path / "seed.py"), *words)

    return command


@as_written
def test_explain(graph, text, script, tmp_path):
    out = printed(script("explain", text()))
    assert out.startswith(bare(text(), tmp_path)[0])
    assert not re.search("no backward|backward_not_run|no gradient|not_connected", out)


@as_written
def test_probe(graph, text, script, tmp_path):
    out, alone = printed(script("probe", text())), bare(text(), tmp_path)[0]
    assert out.startswith(alone)
    rows = table(out.removeprefix(alone))
    assert {name: (rows[name]["value"], rows[name]["gradient"]) for name in graph.numbers} == {
        name: (f"[{value}]", f"[{gradient}]") for name, (value, gradient) in graph.numbers.items()
    }


@as_written
def test_draw(graph, text, script, tmp_path):
    picture = tmp_path / "seed.svg"
    assert f"the circuit: {picture}" in printed(script("draw", text(), str(picture)))
    pictured(Drawn(picture.read_text()), graph)


@as_written
def test_derive(graph, text, script):
    name, symbol, number = graph.derived
    assert re.search(rf"^{symbol} = .* = {number}$", printed(script("derive", text(), name)), re.MULTILINE)


# the name that a loop takes away

TYPE_ERROR = "'tuple' object is not callable"


def names_both_lines(said, file, text):
    """Does it say that ``grad`` was defined by the import and bound again by the loop, each at its line?"""
    lines = line_of(text, "from torch.autograd import grad"), line_of(text, "for name, grad in")
    return re.search(r"['`]grad['`]", said) and all(f"{file}:{line}" in said for line in lines)


def test_the_shadowed_function_in_a_block(tmp_path):
    text = blocked(joined(1, 2, 3))
    with pytest.raises(TypeError, match=TYPE_ERROR) as caught, redirect_stdout(io.StringIO()):
        run(text, tmp_path / "seed.py")
    assert names_both_lines("\n".join(caught.value.__notes__), "seed.py", text)


def test_the_shadowed_function_in_cells(shell):  # noqa: F811
    book = Notebook(shell)
    number = shell.execution_count
    book.probe(cells(1)[2])
    ran = book.run(f"%%probe rec\n{cells(1)[3]}")
    assert type(ran.error) is TypeError and str(ran.error) == TYPE_ERROR
    assert names_both_lines(ran.out + ran.err, f"In[{number}]", cells(1)[2])


@pytest.mark.parametrize("verb", ["explain", "probe"])
def test_the_shadowed_function_in_a_script(script, verb):
    text = joined(1, 2, 3)
    code, out, err = script(verb, text)
    assert code == 3
    assert f"TypeError: {TYPE_ERROR}" in err
    assert names_both_lines(out + err, "seed.py", text)


# in a kernel


TOY_GRADS = "{'x': 2.0, 'w': 3.0, 'b': 1.0, 'u': 1.0, 'v': 1.0, 'a': 1.0}\n"
GRADS = "print({name: gradient.item() for name, gradient in rec.grads().items()})"


def notebook(seed, *numbers):
    """The notebook with each of these cells probed, and behind it the gradients of its recording."""
    pairs = [(f"%%probe rec\n{cells(seed)[number]}", GRADS) for number in numbers]
    return ["%load_ext backprobe", *(source for pair in pairs for source in pair)]


def magic(number):
    """A cell of magics, without them where they are not installed."""
    text = cells(0)[number]
    return text if importlib.util.find_spec("watermark") else re.sub(r"^%.*$", "", text, flags=re.MULTILINE)


def test_the_first_seed_in_a_kernel():
    out = executed(magic(1), *notebook(0, 3, 4, 5, 6), magic(7))
    assert out[3:11:2] == [TOY_GRADS] * 4
    assert "d_a_x: tensor([2.])" in out[6]


def test_the_second_seed_in_a_kernel():
    out = executed(*notebook(1, 2, 3, 4, 5), allow_errors=True)
    assert [out[2], out[6], out[8]] == [TOY_GRADS] * 3


def test_the_third_seed_in_a_kernel():
    before = [cells(2)[number] for number in (8, 9, 10, 11, 12)]
    out = executed(*before, *notebook(2, 13), cells(2)[14], f"%%probe rec\n{joined(2, 8, *AFTER_X)}", GRADS)
    assert out[-4:-2] == ["{'y': 1.0}\n", "[tensor([1.]), tensor([6.]), tensor([12.])]\n"]
    assert out[-1] == "{'x': 12.0, 'z': 6.0, 'y': 1.0}\n"
