"""Lines of programs in JAX that cannot be traced, or not gone back through: named in errors, and in scripts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from jax import lax

import backprobe as bp
from backprobe.cli import main

X = jnp.array([1.0, 2.0])


def open_while(x):
    h = x * 2
    r = lax.while_loop(lambda c: c < 10, lambda c: c * 2 + x[0], h[1])  # here
    return r * 2


def numpy_in_jit(x):
    @jax.jit
    def inner(t):
        u = t * 2
        return np.sin(u)  # here

    return inner(x).sum()


def branch_in_scan(x):
    def step(c, t):
        if c > 0:  # here
            c = c * 2
        return c + t, None

    return lax.scan(step, x[0], x)[0]


OPEN, NUMBER = "the number of turns of this loop is not known beforehand", "the program asks for the number in a value"


@pytest.mark.parametrize(("program", "what"), [
    (open_while, OPEN), (numpy_in_jit, NUMBER), (branch_in_scan, NUMBER),
])  # fmt: skip
def test_the_line_is_named(program, what):
    with open(__file__) as file:
        lines = list(enumerate(file.read().split("\n"), 1))
    here = next(n for n, line in lines if n > program.__code__.co_firstlineno and line.endswith("# here"))
    with pytest.raises(Exception) as caught:  # noqa: PT011  each of these is another error of JAX's
        bp.probe(program)(X)
    (note,) = [note for note in caught.value.__notes__ if what in note]
    assert f"test_jax_traced_lines.py:{here}: " in note


SCRIPTS = {
    "a branch": (
        "@jax.jit\ndef loss(w):\n    h = (w * 2).sum()\n    if h > 0:\n        return h**2\n    return h\n",
        "if h > 0:", "where JAX traces this line, it raises TracerBoolConversionError",
    ),
    "a loop": (
        "def loss(w):\n    h = lax.while_loop(lambda c: c.sum() < 10.0, lambda c: c * 2, w)\n    return h.sum()\n",
        "lax.while_loop", "where JAX traces this line, it raises ValueError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_runs_uncompiled_alone(name, tmp_path, monkeypatch):
    text, line, said = SCRIPTS[name]
    (tmp_path / "train.py").write_text(
        f"import jax, jax.numpy as jnp\nfrom jax import lax\n\n{text}\n\nprint(jax.grad(loss)(jnp.ones(2)))\n"
    )
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(main, ["explain", "train.py"])
    assert ran.exit_code == 1, ran.output
    assert said in ran.output and line in ran.output.split("at:")[1].split("seen:")[0]
