"""The seeds' graphs of TensorFlow 1, as they are written but for their import, which switches a process to that."""

import re

import pytest

import prepared
from drawn import Drawn
from notebook_cells import executed
from passes.forms import with_block
from passes.tables import table
from seeds import cells

AS_TF1 = "import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()"
VALUES = {"x": 3, "w": 2, "b": 1, "u": 6, "v": 7, "a": 7}
GRADS = {"x": 2, "w": 3, "b": 1, "u": 1, "v": 1, "a": 1}
EDGES = {("x", "u"): "2", ("w", "u"): "3", ("u", "v"): "1", ("b", "v"): "1", ("v", "a"): "1"}
NUMBERS = "print({name: float(rec[name].grad) for name in 'xwbuva'})\n"
GIVEN = f"{ {name: float(number) for name, number in GRADS.items()} }\n"
each_seed = pytest.mark.parametrize(("seed", "number"), [(0, 2), (1, 1)])


def graph(seed, number):
    return cells(seed)[number].replace("import tensorflow as tf", AS_TF1) + "\n"


def python(folder, text, *words):
    """What a process of its own prints that runs this file, or gives it to a command; it has to end well."""
    (folder / "seed.py").write_text(text)
    verb, *rest = words or ("",)
    command = ["-m", "backprobe", verb, "seed.py", *rest] if verb else ["seed.py"]
    ran = prepared.run("tensorflow", *command, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def numbers(printed):
    return [float(number) for number in re.findall(r"float32\((.*?)\)", printed)]


@each_seed
def test_block(seed, number, tmp_path):
    out = python(tmp_path, "import tensorflow\n" + with_block(graph(seed, number)) + NUMBERS)
    assert numbers(out) == [2, 3, 1, 1, 1]
    assert out.endswith(GIVEN)


def test_cell():
    out = executed("%load_ext backprobe", f"%%probe rec\n{graph(0, 2)}", NUMBERS, is_forked=False)
    assert numbers(out[1]) == [2, 3, 1, 1, 1]
    assert out[2] == GIVEN


@each_seed
def test_explain(seed, number, tmp_path):
    out = python(tmp_path, graph(seed, number), "explain")
    assert numbers(out) == [2, 3, 1, 1, 1]
    assert not re.search("no gradient|no backward|not followed|not_connected", out)


@each_seed
def test_probe(seed, number, tmp_path):
    rows = table(python(tmp_path, graph(seed, number), "probe"))
    assert {name: (rows[name]["value"], rows[name]["gradient"]) for name in GRADS} == {
        name: (str(VALUES[name]), str(GRADS[name])) for name in GRADS
    }


def test_draw(tmp_path):
    python(tmp_path, graph(0, 2), "draw", "seed.svg")
    drawn = Drawn((tmp_path / "seed.svg").read_text())
    assert {name: drawn.nodes[name][-2:] for name in GRADS} == {
        name: [f"= {VALUES[name]}", f"∂a/∂{name} = {GRADS[name]}"] for name in GRADS
    }
    assert {ends: drawn.edges[ends] for ends in EDGES} == EDGES


def test_derive(tmp_path):
    out = python(tmp_path, graph(0, 2), "derive", "x")
    assert re.search(r"^∂a/∂x = .* = 2$", out, re.MULTILINE)
