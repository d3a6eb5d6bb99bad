"""The gradient at which a JAX script is stopped has the number that a reader counts.

Each program prints ``took`` in front of each gradient that it takes: so many there are when it is stopped.
"""

import re
import textwrap

import pytest

from commands import in_folder, invoked

HEAD = """\
import jax, jax.numpy as jnp
p = {"w": jnp.ones(3) * 2}
def before(p, x): return jnp.log(p["w"] - x).mean()          # NaN in the value for x above 2
def behind(p, x): return jnp.sqrt(p["w"] - x).mean()         # Inf in the gradient alone for x = 2
def other(p, x): return (p["w"] * x).sum()
"""
TWICE = """\
for step in range(4):
    for _ in range(2):
        print("took"); g = jax.value_and_grad(other)(p, 1.0)
    print("took"); g = jax.value_and_grad({})(p, step + 1.0)
"""
LOOP = """\
take = {}
for step in range({}, 6):
    print("took"); g = take(p, float(step))
"""
PROGRAMS = {
    "the first, its value": LOOP.format("jax.value_and_grad(before)", 3),
    "the first, its gradient": LOOP.format("jax.value_and_grad(behind)", 2),
    "the first of jax.grad, its value": LOOP.format("jax.grad(before)", 3),
    "a later one, its value": LOOP.format("jax.value_and_grad(before)", 0),
    "a later one, its gradient": LOOP.format("jax.value_and_grad(behind)", 0),
    "a later one of jax.grad, its gradient": LOOP.format("jax.grad(behind)", 0),
    "compiled, its value": LOOP.format("jax.jit(jax.value_and_grad(before))", 1),
    "compiled, its gradient": LOOP.format("jax.jit(jax.value_and_grad(behind))", 1),
    "behind two of another function, its value": TWICE.format("before"),
    "behind two of another function, its gradient": TWICE.format("behind"),
    "with an auxiliary result": LOOP.format("jax.value_and_grad(lambda p, x: (before(p, x), x), has_aux=True)", 0),
    "in a function that is compiled": """\
        @jax.jit
        def step(p, x):
            value, g = jax.value_and_grad(before)(p, x)
            return {"w": p["w"] - 0.0 * g["w"]}
        for at in range(5):
            print("took"); p = step(p, float(at))
        """,
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_gradient_has_the_number_that_a_reader_counts(program, tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"train.py": HEAD + textwrap.dedent(PROGRAMS[program])}):
        code, out, err = invoked("explain", "--nonfinite", "train.py")
    (number,) = re.findall(r"this is gradient (\d+) of those", out + err) or [None]
    assert code == 1 and int(number) == out.count("took"), out + err
