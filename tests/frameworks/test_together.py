"""All frameworks in one process, imported in any order: each computes what it would alone."""

import functools
import itertools
import json
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import pytest
import tensorflow as tf
import torch
from backends import FRAMEWORKS

import backprobe as bp
import prepared
from random_programs.compare import load
from sampled import every

PROBED = """
import json, warnings
import backprobe as bp
import sys

def f(x, w):
    u = x * w
    u = u + x
    v = helper(u)
    return v * u

def helper(t):
    q = t * 2
    return q

def said(rec):
    return {name: [list(entry.aliases), float(entry.value), float(entry.grad)] for name, entry in rec.items()}

def given(name):
    if name == "torch":
        import torch
        return torch.tensor(3.0), torch.tensor(2.0)
    if name == "tensorflow":
        import tensorflow as tf
        return tf.constant(3.0), tf.constant(2.0)
    import jax.numpy as jnp
    return jnp.asarray(3.0), jnp.asarray(2.0)

found = {}
for count, name in enumerate(sys.argv[1:]):
    rec = bp.probe(f)(*given(name))
    found[name] = [said(rec), rec.record.backend]
for name in sys.argv[1:]:  # and again, where all are there
    assert [said(bp.probe(f)(*given(name))), name] == found[name], name
    assert bp.probe(f, backend=name)(3.0, 2.0)["x"].grad == 108
try:
    bp.probe(f)(3.0, 2.0)
except bp.NoBackend as error:
    found["refused"] = str(error)
print(json.dumps(found))
"""


ORDERS = {"-".join(order): order for order in itertools.permutations(FRAMEWORKS)}


@pytest.mark.parametrize("name", every(2, ORDERS))
def test_frameworks_in_any_order(name, tmp_path):
    """The process begins with backprobe imported, which imports none of them, and then the first."""
    order, file = ORDERS[name], tmp_path / "probed.py"
    file.write_text(PROBED)
    ran = prepared.run(f"backprobe {order[0]}", file, *order, timeout=300)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    wanted = {
        "x": [[], 3, 108],
        "w": [[], 2, 108],
        "u#0": [[], 6, 36],
        "u#1": [["/helper:t"], 9, 36],
        "v": [["/helper:q", "/helper:return"], 18, 9],
        "return": [[], 162, 1],
    }
    for each in FRAMEWORKS:
        assert found[each] == [wanted, each]
    assert found["refused"] == (
        "cannot infer the framework from the arguments\n"
        "  found: imported: torch, tensorflow, jax\n"
        "  why:   plain numbers belong to no framework\n"
        '  next:  bp.probe(f, backend="torch")'
    )


MENTIONING = {
    "torch": "import torch",
    "tensorflow": "import tensorflow as tf",
    "jax": "from jax.numpy import sin",
}


@pytest.mark.parametrize("name", MENTIONING)
def test_numbers_belong_to_the_framework_that_the_function_or_its_module_mentions(name, tmp_path):
    """TensorFlow imports JAX, so that several are there though a program uses one of them."""
    text = f"{MENTIONING[name]}\n\ndef f(x):\n    u = x * 2\n    return u * u\n"
    rec = bp.probe(load(text, tmp_path / "mentioning.py"))(3.0)
    assert (rec.record.backend, FRAMEWORKS[name].numpy(rec["u"].grad).item()) == (name, 12)


def test_of_several_that_a_module_mentions_the_one_that_the_function_uses(tmp_path):
    text = "import torch\nimport jax.numpy as jnp\n\ndef f(x):\n    u = jnp.sin(x)\n    return u * u\n"
    assert bp.probe(load(text, tmp_path / "using.py"))(3.0).record.backend == "jax"


MADE = {
    "jax.jit(f)": "jax",
    "jax.checkpoint(f)": "jax",
    "partial(jax.jit(f))": "jax",
    "tf.function(f)": "tensorflow",
    "tf.function(jit_compile=True)(f)": "tensorflow",
}


@pytest.mark.parametrize("made", MADE)
def test_numbers_belong_to_the_framework_that_made_the_function(made, tmp_path):
    f = load("def f(x):\n    u = x * 2\n    return u * u\n", tmp_path / "made.py")
    rec = bp.probe(eval(made, {"f": f, "partial": functools.partial, "tf": tf, "jax": jax}))(3.0)
    assert (rec.record.backend, FRAMEWORKS[MADE[made]].numpy(rec["x"].grad).item()) == (MADE[made], 24)


def test_a_compiled_function_is_refused_by_the_framework_that_compiled_it(tmp_path):
    f = load("def f(x):\n    u = x * 2\n    return u * u\n", tmp_path / "made.py")
    with warnings.catch_warnings():  # newer releases of PyTorch warn of scripts
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled, scripted = torch.compile(f), torch.jit.script(f)
    with pytest.raises(bp.Unsupported, match="a compiled model or function cannot be probed"):
        bp.probe(compiled)(3.0)
    with pytest.raises(bp.NoSource, match="f has no Python source"):
        bp.probe(scripted)(3.0)


def test_recordings_of_several_frameworks_at_once():
    """A probe inside the program of another framework: each tape sees its own tensors only."""

    def inner(t):
        q = t * t
        return q

    for outside, inside in itertools.permutations(FRAMEWORKS.values(), 2):

        def f(x):
            u = x * 2
            rec = bp.probe(inner)(inside.tensor(5.0))
            factor = int(rec["t"].grad)
            return u * factor

        rec = bp.probe(f)(outside.tensor(3.0))
        assert outside.numpy(rec["x"].grad).item() == 20
        assert rec.record.backend == outside.name


def test_a_tensor_of_another_framework_in_a_program():
    """It is a value that this framework knows nothing of."""
    for framework, other in itertools.permutations(FRAMEWORKS.values(), 2):

        def f(x, held):
            u = x * float(other.numpy(held))
            return u

        rec = bp.probe(f, backend=framework.name)(framework.tensor(3.0), other.tensor(2.0))
        assert framework.numpy(rec["x"].grad).item() == 2


def test_only_what_is_asked_for_is_imported(tmp_path):
    for name in FRAMEWORKS:
        rec = bp.probe(lambda x: x * 2)(FRAMEWORKS[name].tensor(3.0))
        rec.save(tmp_path / name)
    code = (
        "import sys, backprobe as bp\n"
        f"for name in {list(FRAMEWORKS)}:\n"
        f"    rec = bp.load({str(tmp_path)!r} + '/' + name, to='numpy')\n"
        "    assert rec['x'].grad == 2, str(rec)\n"
        "print(sorted({'torch', 'tensorflow', 'jax', 'keras'} & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert (ran.stdout, ran.returncode) == ("[]\n", 0), ran.stderr


def test_a_compiled_function_leaves_checks_as_they_are():
    """Asking who made a function once took the constructor from the class that a check is."""

    def f(x):
        return jax.numpy.sum(jax.numpy.sin(x))

    assert bp.probe(jax.jit(f))(3.0) is not None
    assert bp.check(f)(jax.numpy.ones(2)).ok
    assert bp.probe(tf.function(lambda x: tf.sin(x)))(3.0) is not None
    assert bp.check(lambda x: tf.reduce_sum(tf.sin(x)))(tf.constant([1.0])).ok
