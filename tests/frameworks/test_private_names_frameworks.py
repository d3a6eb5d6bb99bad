"""A release of JAX or TensorFlow that has lost a private name gives the same gradients, or is refused by that name."""

import ast
import re
from pathlib import Path

import pytest

import prepared

BACKENDS = Path(__file__).parents[2] / "src" / "backprobe" / "backends"
OF_JAX = re.findall(r'NAMES\.(?:needed|optional)\("([\w.]+)"', (BACKENDS / "jax" / "private.py").read_text())
PROGRAM = """
def line(x, w, b):
    u = x * w
    v = u + b
    a = relu(v)
    return a

def inner(x):
    z = 2 * x
    y = z ** 2 + 2 * z + 2
    return y

try:
    rec = bp.probe(line)(three, two, one)
    assert [float(rec[name].grad) for name in ("x", "w", "b", "u", "v", "a")] == [2, 3, 1, 1, 1, 1], rec
    assert [float(rec[name].value) for name in "uva"] == [6, 7, 7], rec
    rec = bp.probe(inner)(one)
    assert [float(rec[name].grad) for name in "yzx"] == [1, 6, 12], rec
    print("ran")
except bp.Unsupported as error:
    print("refused", error)
"""
IN_JAX = """
import sys
import jax
import backprobe as bp
from backprobe.backends import private_names
known = private_names.lookup
private_names.lookup = lambda path: None if path == sys.argv[1] else known(path)
relu, (three, two, one) = jax.nn.relu, map(jax.numpy.asarray, (3.0, 2.0, 1.0))
"""
IN_TENSORFLOW = """
import sys
from importlib import import_module
import tensorflow as tf
import backprobe as bp
home, *path = sys.argv[1:]
owner = import_module(home)
for name in path[:-1]:
    owner = getattr(owner, name)
relu, (three, two, one) = tf.nn.relu, map(tf.constant, (3.0, 2.0, 1.0))
delattr(owner, path[-1])
"""


def of_tensorflow():
    """Where the names are that its backend looks for, each as a module and a path in it."""
    tree = ast.parse((BACKENDS / "tensorflow" / "private.py").read_text())
    looking = next(node for node in tree.body if isinstance(node, ast.Try))
    homes = {}
    for node in looking.body:
        if isinstance(node, ast.ImportFrom):
            homes |= {one.asname or one.name: (node.module, one.name) for one in node.names}
    for node in ast.walk(looking):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in homes:
            module, name = homes[node.value.id]
            yield (module, name, node.attr) if name[0].isupper() else (f"{module}.{name}", node.attr)


def judge(ended, name):
    """All numbers were right, or the first probe was refused by the name."""
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "ran\n" or (ended.stdout.startswith("refused") and name in ended.stdout)


@pytest.mark.parametrize("name", OF_JAX)
def test_jax_without_a_private_name(tmp_path, name):
    (tmp_path / "program.py").write_text(IN_JAX + PROGRAM)
    judge(prepared.run("jax", "program.py", name, cwd=tmp_path), name)


@pytest.mark.parametrize("path", sorted(set(of_tensorflow())), ids=".".join)
def test_tensorflow_without_a_private_name(tmp_path, path):
    (tmp_path / "program.py").write_text(IN_TENSORFLOW + PROGRAM)
    judge(prepared.run("tensorflow", "program.py", *path, cwd=tmp_path), path[-1])
